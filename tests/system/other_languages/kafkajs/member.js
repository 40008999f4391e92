// Is a member of a group until SIGTERM: says of each record "read VALUE", and "committed PARTITION
// OFFSET" as soon as that is acknowledged.
//
// Where kafkajs learns at a commit that it is no member any more, it calls that not retriable, and
// the consumer is of no use any more: it is for the application to make another one.
const { Kafka, logLevel } = require('kafkajs')

const fail = (error) => {
  console.error(error)
  process.exit(1)
}

async function main([bootstrap, group, topic, session]) {
  const kafka = new Kafka({ brokers: bootstrap.split(','), logLevel: logLevel.NOTHING })
  let consumer
  process.on('SIGTERM', () => consumer.disconnect().then(() => process.exit(0)))

  async function begin() {
    consumer = kafka.consumer({
      groupId: group,
      sessionTimeout: Number(session),
      heartbeatInterval: 500,
    })
    consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || begin().catch(fail))
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({ autoCommit: false, eachBatch: eachBatchOf(consumer) })
  }

  const eachBatchOf = (reading) => async ({ batch, isRunning, isStale }) => {
    if (!isRunning() || isStale()) return
    for (const message of batch.messages) console.log(`read ${message.value}`)
    const offset = String(BigInt(batch.lastOffset()) + 1n)
    const { partition } = batch
    await reading.commitOffsets([{ topic, partition, offset }])
    console.log(`committed ${partition} ${offset}`)
  }

  await begin()
}

main(process.argv.slice(2)).catch(fail)
