// kafkajs against one broker or several: old versions of the protocol (Produce 7, Fetch 11, Metadata 6) from JavaScript.
//
// node checks.js HOST:PORT,... (every broker) prints a line of JSON for each check: {"check", "ok", "detail"}.
'use strict'

const assert = require('node:assert/strict')
const { randomUUID } = require('node:crypto')
const {
  Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel,
} = require('kafkajs')
const lz4 = require('lz4js')
const xxh32 = require('lz4js/xxh32')

// kafkajs brings gzip alone; these are the codecs that its users plug in.
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => {
    // lz4js writes independent blocks without saying so in the frame's flags, and Kafka takes no others.
    const frame = Buffer.from(lz4.compress(encoder.buffer))
    frame[4] |= 0x20
    frame[6] = xxh32.hash(0, frame, 4, 2) >> 8
    return frame
  },
  decompress: async (buffer) => Buffer.from(lz4.decompress(buffer)),
})
const zstd = new Promise((resolve) => require('zstd-codec').ZstdCodec.run((found) => resolve(new found.Simple())))
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from((await zstd).compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from((await zstd).decompress(buffer)),
})

const TIMEOUT_MS = 30_000
const BASE_TIMESTAMP_MS = 1_700_000_000_000
const brokers = process.argv[2].split(',')
const kafka = new Kafka({
  clientId: 'checks', brokers, logLevel: logLevel.NOTHING, retry: { retries: 8, initialRetryTime: 50 },
})
const admin = kafka.admin()

const fresh = (prefix) => `${prefix}-${randomUUID().slice(0, 13)}`

// The samples of client_samples.py (kafkajs has no null headers).
function samples(count = 40) {
  return Array.from({ length: count }, (_, number) => {
    const record = {
      key: Buffer.from(`key-${number}`),
      value: Buffer.from(`value-${number}-${'abcdefghij'.repeat(60)}`),
      headers: {},
      timestamp: String(BASE_TIMESTAMP_MS + number * 1000),
      partition: 0,
    }
    switch (number % 8) {
      case 0: record.key = null; break
      case 1: record.value = null; break
      case 2: record.key = Buffer.alloc(0); record.value = Buffer.alloc(0); break
      case 3: record.headers = { trace: [Buffer.from([0, 1, 255]), Buffer.from('zwei-ü')], blank: Buffer.alloc(0) }; break
      case 4: record.value = Buffer.from(Array.from({ length: 1024 }, (_, i) => i % 256)); break
    }
    return record
  })
}

async function topic(partitions = 1, configs = {}) {
  const name = fresh('topic')
  const configEntries = Object.entries(configs).map(([key, value]) => ({ name: key, value }))
  await admin.createTopics({ topics: [{ topic: name, numPartitions: partitions, replicationFactor: brokers.length, configEntries }] })
  return name
}

async function producing(settings, work) {
  const producer = kafka.producer(settings)
  await producer.connect()
  try {
    return await work(producer)
  } finally {
    await producer.disconnect()
  }
}

const transactional = () => ({ transactionalId: fresh('tx'), idempotent: true, maxInFlightRequests: 1 })

const send = (name, messages, more = {}, settings = {}) =>
  producing(settings, (producer) => producer.send({ topic: name, messages, ...more }))

// The first `count` messages for a group; `prepare` may seek once the consumer runs.
async function receive(name, count, { group = fresh('group'), prepare, commit } = {}) {
  const consumer = kafka.consumer({ groupId: group, maxWaitTimeInMs: 50, rebalanceTimeout: 5000, sessionTimeout: 10000 })
  await consumer.connect()
  const messages = []
  try {
    await consumer.subscribe({ topics: [name], fromBeginning: true })
    await new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${messages.length} of ${count} messages`)), TIMEOUT_MS)
      consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || reject(payload.error))
      consumer.run({
        autoCommit: false,
        eachMessage: async ({ message }) => {
          if (messages.length < count) messages.push(message)
          if (messages.length === count) { clearTimeout(timer); resolve() }
        },
      }).catch(reject)
      if (prepare) prepare(consumer)
    })
    if (commit) await consumer.commitOffsets([{ topic: name, partition: 0, ...commit }])
  } finally {
    await consumer.disconnect()
  }
  return messages
}

const offsets = (messages) => messages.map((message) => Number(message.offset))
const range = (start, end) => Array.from({ length: end - start }, (_, i) => start + i)

async function roundTrip(compression, idempotent) {
  const name = await topic()
  const sent = samples()
  const [answer] = await send(name, sent, { compression, acks: -1 }, { idempotent })
  assert.equal(Number(answer.baseOffset), 0)
  const found = await receive(name, sent.length)
  assert.deepEqual(offsets(found), range(0, sent.length))
  found.forEach((message, i) => {
    assert.deepEqual(message.key, sent[i].key)
    assert.deepEqual(message.value, sent[i].value)
    assert.deepEqual({ ...message.headers }, sent[i].headers)
    assert.equal(message.timestamp, sent[i].timestamp)
  })
}

async function refused(type, work) {
  try {
    await work()
  } catch (error) {
    const names = [error, error.cause, ...(error.errors ?? []), ...(error.groups ?? []).map((each) => each.error)]
      .map((each) => each?.type).filter(Boolean)
    assert.ok(names.includes(type), `expected ${type}, found ${names} ${error}`)
    return
  }
  assert.fail(`expected ${type}, found no error`)
}

async function eventually(condition) {
  const deadline = Date.now() + TIMEOUT_MS
  while (!(await condition())) {
    assert.ok(Date.now() < deadline, 'not in time')
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

const CODECS = {
  none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4, zstd: CompressionTypes.ZSTD,
}

const CHECKS = {
  ...Object.fromEntries(Object.entries(CODECS).flatMap(([name, codec]) => [
    [`round trip ${name}`, () => roundTrip(codec, false)],
    [`round trip ${name} idempotent`, () => roundTrip(codec, true)],
  ])),

  ...Object.fromEntries([0, 1, -1].map((acks) => [`acks ${acks}`, async () => {
    const name = await topic()
    await eventually(async () => (await admin.fetchTopicOffsets(name))[0].offset === '0')
    await send(name, samples(5), { acks })
    assert.deepEqual(offsets(await receive(name, 5)), range(0, 5))
  }])),

  'middle of a batch': async () => {
    const name = await topic()
    await send(name, samples(), { compression: CompressionTypes.GZIP })
    const found = await receive(name, 23, { prepare: (consumer) => consumer.seek({ topic: name, partition: 0, offset: '17' }) })
    assert.deepEqual(offsets(found), range(17, 40))
  },

  'offsets by timestamp': async () => {
    const name = await topic()
    await send(name, samples(20))
    const [ends] = await admin.fetchTopicOffsets(name)
    assert.deepEqual([ends.low, ends.high], ['0', '20'])
    const [found] = await admin.fetchTopicOffsetsByTimestamp(name, BASE_TIMESTAMP_MS + 12_000)
    assert.equal(found.offset, '12')
  },

  'group resumes': async () => {
    const [name, group] = [await topic(), fresh('group')]
    await send(name, samples(12))
    const first = await receive(name, 5, { group, commit: { offset: '5', metadata: 'half-way ü' } })
    assert.deepEqual(offsets(first), range(0, 5))
    const [committed] = await admin.fetchOffsets({ groupId: group, topics: [name] })
    assert.deepEqual({ ...committed.partitions[0] }, { partition: 0, offset: '5', metadata: 'half-way ü' })
    assert.deepEqual(offsets(await receive(name, 7, { group })), range(5, 12))
    assert.ok((await admin.listGroups()).groups.some((each) => each.groupId === group))
    const described = await admin.describeGroups([group])
    assert.equal(described.groups[0].state, 'Empty')
    await admin.deleteGroups([group])
    await refused('GROUP_ID_NOT_FOUND', () => admin.deleteGroups([group]))
  },

  ...Object.fromEntries(['commit', 'abort'].map((end) => [`transaction ${end}${end === 'abort' ? 'ed' : 'ted'}`, async () => {
    const name = await topic()
    await producing(transactional(), async (producer) => {
      for (let round = 0; round < 2; round++) { // the second transaction meets the state that the first one left
        const transaction = await producer.transaction()
        await transaction.send({ topic: name, messages: samples(6) })
        await transaction[end]()
      }
    })
    await send(name, [{ value: 'last', partition: 0 }])
    const found = await receive(name, end === 'commit' ? 13 : 1)
    // 6 records, a marker, 6 records and a marker lie before the last.
    assert.deepEqual([found.at(-1).value.toString(), found.at(-1).offset], ['last', '14'])
  }])),

  'offsets in a transaction': async () => {
    const [name, group] = [await topic(), fresh('group')]
    const committed = async () => (await admin.fetchOffsets({ groupId: group, topics: [name] }))[0].partitions[0].offset
    await producing(transactional(), async (producer) => {
      for (const [end, offset] of [['abort', '-1'], ['commit', '9']]) {
        const transaction = await producer.transaction()
        await transaction.send({ topic: name, messages: samples(3) })
        await transaction.sendOffsets({
          consumerGroupId: group, topics: [{ topic: name, partitions: [{ partition: 0, offset: '9' }] }],
        })
        assert.equal(await committed(), '-1') // nothing of it is visible while it is open
        await transaction[end]()
        await eventually(async () => (await committed()) === offset)
      }
    })
  },

  'transactional producer fenced': async () => {
    const [name, settings] = [await topic(), transactional()]
    await producing(settings, async (zombie) => {
      const late = await zombie.transaction()
      await late.send({ topic: name, messages: [{ value: 'zombie', partition: 0 }] })
      await producing(settings, async (heir) => {
        const transaction = await heir.transaction()
        await transaction.send({ topic: name, messages: [{ value: 'heir', partition: 0 }] })
        await assert.rejects(late.commit())
        await transaction.commit()
      })
    })
    const [first] = await receive(name, 1)
    assert.deepEqual([first.value.toString(), first.offset], ['heir', '2']) // a record and its abort marker lie before
  },

  'topics administered': async () => {
    const name = await topic(2, { 'retention.ms': '123456' })
    assert.ok((await admin.listTopics()).includes(name))
    assert.equal(await admin.createTopics({ topics: [{ topic: name }] }), false) // it exists
    await admin.createPartitions({ topicPartitions: [{ topic: name, count: 4 }] })
    await eventually(async () =>
      (await admin.fetchTopicMetadata({ topics: [name] })).topics[0].partitions.length === 4)
    await eventually(() => admin.fetchTopicOffsets(name).then(() => true, () => false)) // the new leaders serve
    await send(name, samples(6))
    await admin.deleteTopicRecords({ topic: name, partitions: [{ partition: 0, offset: '4' }] })
    assert.equal((await admin.fetchTopicOffsets(name)).find((each) => each.partition === 0).low, '4')
    await admin.deleteTopics({ topics: [name] })
    await eventually(async () => !(await admin.listTopics()).includes(name))
    await refused('INVALID_TOPIC_EXCEPTION', () => admin.createTopics({ topics: [{ topic: 'no spaces' }] }))
  },

  'configs described and altered': async () => {
    const name = await topic(1, { 'retention.ms': '123456' })
    const described = async () => {
      const { resources } = await admin.describeConfigs({
        includeSynonyms: true,
        resources: [{ type: ConfigResourceTypes.TOPIC, name, configNames: ['retention.ms', 'segment.bytes'] }],
      })
      return Object.fromEntries(resources[0].configEntries.map((entry) => [entry.configName, entry.configValue]))
    }
    await eventually(async () => (await described())['retention.ms'] === '123456') // the broker has heard of the topic
    assert.deepEqual(await described(), { 'retention.ms': '123456', 'segment.bytes': '1073741824' })
    await admin.alterConfigs({
      validateOnly: false,
      resources: [{ type: ConfigResourceTypes.TOPIC, name, configEntries: [{ name: 'retention.ms', value: '654321' }] }],
    })
    await eventually(async () => (await described())['retention.ms'] === '654321')
  },

  'cluster described': async () => {
    const cluster = await admin.describeCluster()
    assert.deepEqual(cluster.brokers.map(({ host, port }) => `${host}:${port}`).sort(), [...brokers].sort())
    assert.ok(cluster.brokers.some(({ nodeId }) => nodeId === cluster.controller))
    assert.equal(cluster.clusterId.length, 22)
  },

  'record too large': async () => {
    const name = await topic(1, { 'max.message.bytes': '1000' })
    await refused('MESSAGE_TOO_LARGE', () => send(name, [{ value: 'x'.repeat(2000) }], {}, { retry: { retries: 0 } }))
    await send(name, [{ value: 'x' }])
  },

  'topic created by producer': async () => {
    const [answer] = await send(fresh('auto'), [{ value: 'first' }])
    assert.equal(answer.baseOffset, '0')
  },
}

async function main() {
  await admin.connect()
  for (const [check, work] of Object.entries(CHECKS)) {
    let detail = ''
    try {
      await work()
    } catch (error) {
      detail = String(error.stack ?? error).slice(0, 500)
    }
    console.log(JSON.stringify({ check, ok: detail === '', detail }))
  }
  await admin.disconnect()
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1) })
