// Writes numbers, one after the other over all partitions, until its standard input ends, and says
// each in a line as it is handed to the client. The next one waits for the acknowledgement of the
// one before; the first that is refused ends it with an error.
//
// With the settings that it comes with, kafkajs gives up after five more tries, about as soon as a
// broker that died is missed; and it asks nobody who leads when an answer stays away, so that it
// writes to a broker that stands still until what it knows is five minutes old.
const { setTimeout: sleep } = require('timers/promises')
const { Kafka, Partitioners, logLevel } = require('kafkajs')

const EVERY_MS = 20
const LAST_ACKNOWLEDGED_WITHIN_MS = 150000

async function main([bootstrap, topic, partitions]) {
  let over = false
  const end = () => {
    over = true
    setTimeout(() => process.exit(1), LAST_ACKNOWLEDGED_WITHIN_MS).unref()
  }
  process.stdin.on('end', end).resume()
  const kafka = new Kafka({
    brokers: bootstrap.split(','),
    retry: { retries: Number.MAX_SAFE_INTEGER, maxRetryTime: 1000 },
    requestTimeout: 5000,
    logLevel: logLevel.NOTHING,
  })
  const producer = kafka.producer({
    idempotent: true,
    metadataMaxAge: 1000,
    createPartitioner: Partitioners.DefaultPartitioner,
  })
  await producer.connect()
  for (let number = 0; !over; number++) {
    console.log(number)
    const message = { partition: number % Number(partitions), value: String(number) }
    await producer.send({ topic, messages: [message] })
    await sleep(EVERY_MS)
  }
  await producer.disconnect()
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error)
  process.exit(1)
})
