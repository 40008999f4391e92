/* Requests to the service, under `api/v1/`. A failed request throws a `Refusal` with words for the
   reader. Requests whose response is no longer needed are aborted. */

const PATIENCE = 30_000;

export class Refusal extends Error {
  /** `command`: a command that helps, if there is one. */
  constructor(message, command = "") {
    super(message);
    this.command = command;
  }
}

/** Requests `question`. Parameters that are null or empty are left out. */
export async function ask(question, parameters = {}, signal = undefined) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== "") query.set(key, value);
  }
  const signals = [AbortSignal.timeout(PATIENCE), ...(signal ? [signal] : [])];
  let response;
  try {
    response = await fetch(`api/v1/${question}?${query}`, { signal: AbortSignal.any(signals) });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refusal("The audit does not answer.");
  }
  if (response.status === 401) location.reload(); // the session is over: to the login
  let answer = null;
  try {
    answer = await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
  }
  if (!response.ok || answer === null) {
    const message = answer?.error ?? `The audit answers with status ${response.status}.`;
    throw new Refusal(message, answer?.command);
  }
  return answer;
}

/** Sends an operator's statement: once this returns, it is stored. */
export async function sendStatement(statement, body) {
  let response;
  try {
    response = await fetch(`api/v1/${statement}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(PATIENCE),
    });
  } catch {
    throw new Refusal("The audit does not answer.");
  }
  if (response.status === 401) location.reload(); // the session is over: to the login
  if (response.ok) return;
  const answer = await response.json().catch(() => null);
  throw new Refusal(answer?.error ?? `The audit answers with status ${response.status}.`);
}
