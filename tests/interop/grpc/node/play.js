// Scenarios of the official Node client: play.js ENDPOINTS PREFIX [ACCESS_KEY SECRET_KEY].
// Every event is a line of JSON.
'use strict';

const { Producer, PushConsumer, SimpleConsumer, ConsumeResult } = require('rocketmq-client-nodejs');
const { TransactionResolution } = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb');

const LIMIT_MS = 150000;
const [ endpoints, prefix, accessKey, accessSecret ] = process.argv.slice(2);
const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const sessionCredentials = accessKey ? { accessKey, accessSecret } : undefined;
const common = { endpoints, namespace: '', logger: quiet, sessionCredentials };

const tell = (scenario, event, more = {}) =>
  process.stdout.write(JSON.stringify({ scenario, event, at: Date.now() / 1000, ...more }) + '\n');
const name = scenario => `${prefix}-${scenario}`;
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));

function tellMessage(scenario, event, got) {
  tell(scenario, event, {
    body: got.body.toString(),
    tag: got.tag || '',
    keys: [ ...(got.keys || []) ].sort(),
    properties: Object.fromEntries(got.properties || []),
    attempt: got.deliveryAttempt,
    group: got.messageGroup || '',
  });
}

async function withProducer(scenario, work, checker) {
  const producer = new Producer({ ...common, topics: [ name(scenario) ], checker });
  await producer.startup();
  try {
    await work(producer);
  } finally {
    await producer.shutdown();
  }
}

const message = (scenario, body, more = {}) => ({
  topic: name(scenario), body: Buffer.from(body), ...more,
});

async function consume(scenario, count, { tags = '*', fails = false } = {}) {
  let enough;
  const done = new Promise(resolve => { enough = resolve; });
  const consumer = new PushConsumer({
    ...common,
    consumerGroup: name(scenario),
    subscriptions: new Map([ [ name(scenario), tags ] ]),
    messageListener: {
      async consume(got) {
        tellMessage(scenario, 'got', got);
        count -= 1;
        if (count <= 0) enough();
        return fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
      },
    },
  });
  await consumer.startup();
  try {
    await Promise.race([ done, sleep(LIMIT_MS).then(() => tell(scenario, 'late')) ]);
    await sleep(1000); // acknowledgements are sent in the background
  } finally {
    await consumer.shutdown();
  }
}

async function receive(topic, group, work) {
  const deadline = Date.now() + LIMIT_MS;
  while (Date.now() < deadline) {
    const consumer = new SimpleConsumer({
      ...common, consumerGroup: group, subscriptions: new Map([ [ topic, '*' ] ]),
      awaitDuration: 5000,
    });
    try {
      await consumer.startup();
    } catch (error) { // the topic is not there yet
      await consumer.shutdown().catch(() => {});
      await sleep(1000);
      continue;
    }
    try {
      while (Date.now() < deadline) {
        let found;
        try {
          found = await consumer.receive(2, 20000);
        } catch (error) {
          continue; // nothing came
        }
        for (const got of found) {
          if (await work(consumer, got)) return;
        }
      }
    } finally {
      await consumer.shutdown();
    }
  }
}

const scenarios = {
  async normal() {
    await withProducer('normal', async producer => {
      for (let number = 0; number < 10; number++) {
        const sent = await producer.send(message('normal', `m${number}`, {
          tag: 'ab'[number % 2], keys: [ `k${number}` ], properties: new Map([ [ 'color', 'blue' ] ]),
        }));
        tell('normal', 'sent', { id: sent.messageId });
      }
    });
    await consume('normal', 5, { tags: 'a || c' });
  },
  async simple() {
    await withProducer('simple', async producer => {
      for (let number = 0; number < 4; number++) await producer.send(message('simple', `s${number}`));
    });
    let again = null;
    let settled = 0;
    await receive(name('simple'), name('simple'), async (consumer, got) => {
      tellMessage('simple', 'got', got);
      if (again === null) {
        again = got.messageId;
        await consumer.changeInvisibleDuration(got, 1000);
        return false;
      }
      await consumer.ack(got);
      settled += 1;
      return settled === 4;
    });
  },
  async fifo() {
    await withProducer('fifo', async producer => {
      for (let number = 0; number < 10; number++) {
        await producer.send(message('fifo', `f${number}`, { messageGroup: 'one' }));
      }
    });
    await consume('fifo', 10);
  },
  async delay() {
    await withProducer('delay', producer =>
      producer.send(message('delay', String(Date.now() / 1000), { delay: 4000 })));
    await consume('delay', 1);
  },
  async tx() {
    const checker = {
      async check(got) {
        tellMessage('tx', 'check', got);
        // A broker may ask about what was rolled back before it has heard of it.
        const rolledBack = got.body.toString() === 'rollback';
        return rolledBack ? TransactionResolution.ROLLBACK : TransactionResolution.COMMIT;
      },
    };
    await withProducer('tx', async producer => {
      for (const body of [ 'commit', 'rollback', 'forgotten' ]) {
        const transaction = producer.beginTransaction();
        await producer.send(message('tx', body), transaction);
        if (body !== 'forgotten') await transaction[body]();
      }
      await consume('tx', 2);
    }, checker);
  },
  async dead() {
    await withProducer('dead', producer => producer.send(message('dead', 'poison')));
    const failing = consume('dead', 3, { fails: true }).catch(() => {});
    await receive(`%DLQ%${name('dead')}`, name('burial'), async (consumer, got) => {
      tellMessage('dead', 'buried', got);
      await consumer.ack(got);
      return true;
    });
    void failing;
  },
};

Promise.all(Object.entries(scenarios).map(async ([ scenario, play ]) => {
  let failure = null;
  try {
    await play();
  } catch (error) {
    failure = error.stack || String(error);
  }
  tell(scenario, 'end', { failure });
})).then(() => process.exit(0));
