// What the page asks the server for, and what the browser remembers for it.

import { formatNumber, t } from "./interface.js";

class AnswerError extends Error {
  constructor(message, status, retryAfter) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter; // seconds after which the same request may succeed; 0: it will not
  }
}

// The message of an error; of a request that is sent again, with the time until then.
export function messageOf(error) {
  return error.retryAfter ? `${error.message} ${t("again", { seconds: formatNumber(error.retryAfter) })}` : error.message;
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
    throw new AnswerError(t("offline"), 0, 5);
  }
  const answer = await response.json().catch(() => ({ error: response.statusText }));
  if (response.ok) return answer;
  const seconds = Number(response.headers.get("Retry-After") ?? 0);
  throw new AnswerError(seconds ? t("busy") : answer.error, response.status, seconds);
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
