// Comes to a broker in several ways, all at once. What ways there are is read from standard input,
// as JSON; for each, one message is written, and a line of JSON says what came of it. A consumer of
// kafkajs is always one of a group, which no broker of Penstock serves: it does not read.
const fs = require('fs')
const { Kafka, logLevel } = require('kafkajs')

async function tryOut(way) {
  const { name, topic } = way
  const producer = new Kafka({
    brokers: [way.address],
    ssl: locks(way),
    sasl: login(way),
    retry: { retries: 1 },
    logLevel: logLevel.NOTHING,
  }).producer()
  try {
    await producer.connect()
    const [written] = await producer.send({ topic, messages: [{ value: name }] })
    return { name, offset: Number(written.baseOffset), error: '' }
  } catch (error) {
    return { name, offset: -1, error: `${error.name}: ${error.message}` }
  } finally {
    await producer.disconnect()
  }
}

function locks(way) {
  if (!way.ca) return undefined
  const own = way.certificate
    ? { cert: fs.readFileSync(way.certificate), key: fs.readFileSync(way.key) }
    : {}
  return { ca: [fs.readFileSync(way.ca)], ...own }
}

function login(way) {
  if (!way.mechanism) return undefined
  const mechanism = way.mechanism.toLowerCase()
  return mechanism === 'oauthbearer'
    ? { mechanism, oauthBearerProvider: async () => ({ value: way.secret }) }
    : { mechanism, username: way.user, password: way.secret }
}

async function main() {
  const ways = JSON.parse(fs.readFileSync(0))
  for (const outcome of await Promise.all(ways.map(tryOut))) console.log(JSON.stringify(outcome))
}

main()
