// A small client of the Prompt Lab API. Types come from schema.d.ts, which is
// generated from openapi.json; nothing is declared twice.
import createClient, { type Client } from "openapi-fetch";
import type { components, paths } from "./schema.d.ts";

export type Schemas = components["schemas"];
export type Api = Client<paths>;

/** A failure that the API told: what is wrong, which fields, whether to try again. */
export class ApiFailure extends Error {
  readonly status: number;
  readonly code: string;
  readonly details: Schemas["Detail"][];
  readonly requestId: string;
  readonly retryable: boolean;

  constructor(status: number, body: Schemas["APIError"]) {
    super(body.error.message);
    this.name = "ApiFailure";
    this.status = status;
    this.code = body.error.code;
    this.details = body.error.details;
    this.requestId = body.error.request_id;
    this.retryable = body.error.retryable;
  }
}

export interface Options {
  /** Address of the server, such as http://127.0.0.1:7717 */
  baseUrl: string;
  /** Bearer token of the role that calls; it is sent in a header, never in an address. */
  token: string;
  fetch?: (request: Request) => Promise<Response>;
}

/** Makes a typed client: `api.GET("/api/overlays")`, `api.POST(...)`. */
export function connect({ baseUrl, token, fetch }: Options): Api {
  return createClient<paths>({
    baseUrl,
    headers: { Authorization: `Bearer ${token}` },
    ...(fetch ? { fetch } : {}),
  });
}

/** Gives the data of an answer, or throws the ApiFailure that it is. */
export async function unwrap<T>(answer: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  const { data, error, response } = await answer;
  if (error !== undefined && error !== null) {
    throw new ApiFailure(response.status, error as Schemas["APIError"]);
  }
  return data as T;
}
