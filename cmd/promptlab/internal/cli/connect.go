package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/elnor/promptlab/cmd/promptlab/internal/client"
	"github.com/elnor/promptlab/cmd/promptlab/internal/config"
	"github.com/elnor/promptlab/cmd/promptlab/internal/home"
)

// talks gives a command the flags that find a server.
func (a *app) talks(c *cobra.Command) *cobra.Command {
	c.PersistentFlags().StringVar(&a.api, "api", "", "address of the server (else ready.json of the home)")
	c.PersistentFlags().StringVar(&a.token, "token-file", "", "file with the token (else the role's in the home)")
	c.PersistentFlags().StringVar(&a.role, "role", "", "whose token of the home to use: user or operator (else the one that the command needs)")
	return c
}

// connect gives a client of the running server.
func (a *app) connect(role string) (*client.Client, error) {
	if a.role != "" {
		role = a.role
	}
	var h home.Home
	dir, _, err := config.HomeDir(a.configInput(nil))
	if err == nil {
		h.Dir = dir
	} else if a.api == "" || a.token == "" {
		return nil, err
	}
	api := a.api
	if api == "" {
		ready, err := h.ReadReady()
		if err != nil || ready.API == "" {
			if err != nil && !missing(err) {
				if errors.Is(err, fs.ErrPermission) {
					return nil, advice{err, "this home belongs to somebody else; choose yours with --home DIR"}
				}
				return nil, advice{err, "start the server again with: promptlab up"}
			}
			return nil, notRunning{h.Dir}
		}
		api = ready.API
	}
	var token string
	if a.token != "" {
		token, err = home.ReadToken(a.absolute(a.token))
	} else {
		token, err = h.Token(role)
	}
	if missing(err) && a.token == "" {
		return nil, advice{errors.New("there is no token for role " + role + " in " + h.RunDir()), "start the server with: promptlab up (or name the token with --token-file)"}
	}
	if err != nil {
		return nil, err
	}
	return a.client(api, token, h)
}

func (a *app) client(api, token string, h home.Home) (*client.Client, error) {
	c := client.Config{API: api, Token: token, Agent: "promptlab/" + a.Version.Version}
	if cfg, _, err := config.Load(a.configInput(nil)); h.Dir != "" && err == nil {
		c.Roots, err = cfg.Roots(os.ReadFile)
		if err != nil && !missing(err) { // a file that is not here belongs to a server elsewhere
			return nil, err
		}
	}
	cl, err := client.New(c)
	if err != nil && a.api != "" {
		return nil, misuse("--api: " + err.Error())
	}
	return cl, err
}

func (a *app) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(a.WorkDir, path)
}

// serving makes the body of a command that talks to a server with the user's token.
func (a *app) serving(do func(*cobra.Command, []string, *client.Client) error) func(*cobra.Command, []string) error {
	return a.as("user", do)
}

// as is serving with the token of a role.
func (a *app) as(role string, do func(*cobra.Command, []string, *client.Client) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		cl, err := a.connect(role)
		if err != nil {
			return err
		}
		return do(c, args, cl)
	}
}
