package api

const docsStyle = `body { font: 16px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1a1a1a; background: #fff; }
nav ul { columns: 2; } nav li { break-inside: avoid; }
table { border-collapse: collapse; margin: .4rem 0 1rem; } th, td { border: 1px solid #ccc; padding: .2rem .5rem; text-align: left; vertical-align: top; }
pre { background: #f4f4f4; padding: .6rem; overflow-x: auto; } code { font-family: ui-monospace, monospace; overflow-wrap: anywhere; }
article { border-top: 1px solid #ccc; } h3 code { font-size: 1rem; }
`

const docsHTML = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Prompt Lab: the API</title><link rel="stylesheet" href="/docs.css"></head>
<body><header><h1>Prompt Lab {{.Version}}: the API</h1>
<p>Made from <a href="/openapi.json">the OpenAPI document</a> of this very server. Credentials go into <code>Authorization: Bearer TOKEN</code>; <code>promptlab token show ROLE</code> prints a role's. Bodies are <code>application/json</code>.</p></header>
{{define "type"}}{{if .Ref}}<a href="#schema-{{.Ref}}">{{.Text}}</a>{{else}}{{.Text}}{{end}}{{end -}}
<nav aria-label="Operations">{{range .Groups}}<h2>{{.Name}}</h2><ul>{{range .Ops}}<li><a href="#{{.ID}}"><code>{{.Method}} {{.Path}}</code></a></li>{{end}}</ul>{{end}}
<p><a href="#failures">Failures</a>, <a href="#schemas">schemas</a></p></nav>
<main>{{range .Groups}}<section><h2>{{.Name}}</h2>
{{range .Ops}}<article id="{{.ID}}"><h3><code>{{.Method}} {{.Path}}</code></h3>
<p>{{.Summary}}.</p><p>Roles: {{.Roles}}.</p>
{{if .Params}}<table><thead><tr><th>parameter</th><th>in</th><th>type</th><th>meaning</th></tr></thead><tbody>
{{range .Params}}<tr><td><code>{{.Name}}</code>{{if .Required}} (required){{end}}</td><td>{{.In}}</td><td>{{template "type" .Type}}</td><td>{{.About}}</td></tr>
{{end}}</tbody></table>{{end}}
{{if .Body.Text}}<p>Body{{if .Empty}} (may be left out){{end}}: {{template "type" .Body}}. The smallest good one:</p>
<pre data-operation="{{.ID}}">{{.Example}}</pre>{{end}}
<table><thead><tr><th>answer</th><th>type</th><th>meaning</th></tr></thead><tbody>
{{range .Answers}}<tr><td>{{if .About}}{{.Status}}{{else}}<a href="#failures">{{.Status}}</a>{{end}}</td><td>{{template "type" .Type}}{{if .Media}} ({{.Media}}){{end}}</td><td>{{.About}}</td></tr>
{{end}}</tbody></table></article>
{{end}}</section>{{end}}
<section id="failures"><h2>Failures</h2><p>All have the shape {{template "type" .FailureType}}.</p><table><tbody>
{{range .Failures}}<tr><td>{{.Status}}</td><td>{{.About}}</td></tr>
{{end}}</tbody></table></section>
<section id="schemas"><h2>Schemas</h2>
{{range .Schemas}}<article id="schema-{{.Name}}"><h3><code>{{.Name}}</code></h3>{{if .Open}}<p>Fields that are not listed are ignored.</p>{{end}}<table><tbody>
{{range .Fields}}<tr><td><code>{{.Name}}</code>{{if .Required}} (required){{end}}</td><td>{{template "type" .Type}}</td><td>{{.About}}</td></tr>
{{end}}</tbody></table></article>
{{end}}</section></main></body></html>
`
