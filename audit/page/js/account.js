/* The user in the head of the page, if the audit has logins; and whether the user is an operator,
   who is shown forms. (The service refuses forms of others.) */

const PATIENCE = 5_000; // no other request is sent until then
let operator = false;
let shown = []; // patterns of the topics whose messages this user may see

export function isOperator() {
  return operator;
}

/** Whether the user may see messages of a topic. Sets in a pattern are left to the service. */
export function showsMessages(topic) {
  return shown.some((pattern) => {
    if (pattern.includes("[")) return true;
    const escaped = pattern.replace(/[\\^$.|+(){}\]]/g, "\\$&");
    const wanted = escaped.replaceAll("*", ".*").replaceAll("?", ".");
    return !topic.startsWith("_") && new RegExp(`^${wanted}$`).test(topic);
  });
}

/** Shows the name, and a logout for a login by password. */
export async function showAccount() {
  let session;
  try {
    session = await (await fetch("session", { signal: AbortSignal.timeout(PATIENCE) })).json();
  } catch {
    return; // the rest of the page reports the failure
  }
  operator = session.operator;
  shown = session.messages ?? [];
  if (!session.user) return;
  const account = document.getElementById("account");
  account.hidden = false;
  document.getElementById("account-name").textContent = session.user;
  document.getElementById("log-out").hidden = session.by !== "session";
}
