import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiFailure, connect, unwrap } from "./client.ts";

const answer = (status: number, body: unknown) => async (request: Request) => {
  assert.equal(request.headers.get("authorization"), "Bearer t0ken");
  assert.ok(!request.url.includes("t0ken"), "a token never stands in an address");
  return new Response(JSON.stringify(body), { status, headers: { "content-type": "application/json" } });
};

test("an answer has the type of its schema", async () => {
  const api = connect({ baseUrl: "http://127.0.0.1:1", token: "t0ken", fetch: answer(200, { items: [], total: 0, evidence_state: "available" }) });
  const list = await unwrap(api.GET("/api/overlays"));
  assert.equal(list.total, 0);
  assert.deepEqual(list.items, []);
});

test("a failure names code, fields and request", async () => {
  const body = {
    error: { code: "validation_failed", message: "body: must not be empty", details: [{ field: "body", rule: "min_length", message: "must not be empty" }], request_id: "r1", retryable: false },
  };
  const api = connect({ baseUrl: "http://127.0.0.1:1", token: "t0ken", fetch: answer(422, body) });
  await assert.rejects(unwrap(api.GET("/api/overlays")), (e: unknown) => {
    assert.ok(e instanceof ApiFailure);
    assert.equal(e.status, 422);
    assert.equal(e.code, "validation_failed");
    assert.equal(e.details[0]?.field, "body");
    assert.equal(e.requestId, "r1");
    return true;
  });
});
