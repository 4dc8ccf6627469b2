// The server's HTTP interface.  Every failure becomes a Refusal with a code that i18n.js has words for.

export class Refusal extends Error {
  constructor(code, message, status = 0) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

async function call(method, path, { body, key, timeoutMs = 10000 } = {}) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key) headers.Authorization = `Bearer ${key}`;
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(timeoutMs),
      cache: "no-store",
    });
  } catch {
    throw new Refusal("offline", "no answer");
  }
  if (response.status === 204) return null;
  let answer = null;
  try {
    answer = await response.json();
  } catch {
    throw new Refusal("other", `HTTP ${response.status}`, response.status);
  }
  if (!response.ok) throw new Refusal(answer.error ?? "other", answer.message ?? "", response.status);
  return answer;
}

export const info = () => call("GET", "/api/info", { timeoutMs: 4000 });
export const begin = (choice, key) => call("POST", "/api/session", { body: choice, key });
export const entrance = (token) => call("POST", "/api/entrance", { body: { token } });
export const offer = (body) => call("POST", "/api/offer", { body });

export function leave(token) {
  const body = new Blob([JSON.stringify({ token })], { type: "application/json" });
  if (!navigator.sendBeacon?.("/api/close", body)) {
    fetch("/api/close", { method: "POST", body, keepalive: true }).catch(() => {});
  }
}
