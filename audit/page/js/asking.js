/* What is asked of the service, under `api/v1/`. An answer that is none, or says what is wrong, is
   a `Refusal` with words for the reader. Any question that nobody waits for any more is given up. */

const PATIENCE = 30_000;

export class Refusal extends Error {
  /** `command`: one that helps, if there is one. */
  constructor(message, command = "") {
    super(message);
    this.command = command;
  }
}

/** The answer to a question. Parameters that are null or empty are left out. */
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

/** Says something, as an operator: it is in the ledger once this has come back. */
export async function say(statement, body) {
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
