// What the page asks the server for, and what the browser remembers for it.

import { formatNumber, t } from "./interface.js";

class AnswerError extends Error {
  constructor(message, status, retryAfter) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter; // seconds after which the same request may succeed; 0: it will not
  }
}

// The answer to a request: GET, or POST with a body that is an object (sent as JSON) or a form.
export async function ask(path, { body, signal } = {}) {
  const key = remembered(localStorage, "key");
  const isForm = body instanceof FormData;
  const headers = {
    ...(key && { Authorization: `Bearer ${key}` }),
    ...(body && !isForm && { "Content-Type": "application/json" }),
  };
  const request = { method: body ? "POST" : "GET", headers, body: isForm || !body ? body : JSON.stringify(body), signal };
  let response;
  try {
    response = await fetch(path, request);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const seconds = 5;
    throw new AnswerError(t("offline", { seconds }), 0, seconds);
  }
  const answer = await response.json().catch(() => ({ error: response.statusText }));
  if (response.ok) return answer;
  const seconds = Number(response.headers.get("Retry-After") ?? 0);
  const message = seconds ? t("busy", { seconds: formatNumber(seconds) }) : answer.error;
  throw new AnswerError(message, response.status, seconds);
}

// A value that localStorage or sessionStorage has; "" if it has none, or the browser keeps nothing.
export function remembered(storage, name) {
  try {
    return storage.getItem(`mtkit ${name}`) ?? "";
  } catch {
    return "";
  }
}

export function remember(storage, name, value) {
  try {
    storage.setItem(`mtkit ${name}`, value);
  } catch {
    // it is not kept: the storage is full or switched off
  }
}
