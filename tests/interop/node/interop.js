// Uses the Node client against the name server given as an argument.
//
// Usage: node interop.js NAMESRV PREFIX
//
// The topics PREFIX + "send", "tags", "retry" and "broadcast" must exist: this client makes none.
// All scenarios run at once.  What was seen is printed as lines of JSON; the key "scenario" says
// who saw it.  A scenario that fails prints a line with the key "failure"; the program ends with 1.
'use strict';

const { setTimeout: sleep } = require('timers/promises');
const { Consumer, Producer, Message } = require('ali-ons');

const DEADLINE_MS = 90_000;
const [namesrv, prefix] = process.argv.slice(2);
const quiet = { debug() {}, info() {}, warn() {}, error(...args) { console.error(...args); } };
let clients = 0;

const options = (more) => ({
  nameSrv: namesrv,
  httpclient: {}, // demanded, and not used when name servers are given
  instanceName: `${prefix}node${clients++}`, // clients with the same one share connections
  logger: quiet,
  pollNameServerInteval: 1_000,
  rebalanceInterval: 1_000,
  ...more,
});

function tell(scenario, event, facts) {
  console.log(JSON.stringify({ scenario, event, ...facts }));
}

const facts = (message) => ({
  topic: message.topic,
  body: message.body.toString(),
  tags: message.tags,
  keys: message.keys,
  queue: message.queueId,
  offset: Number(message.queueOffset),
  times: message.reconsumeTimes,
  msgId: message.msgId,
  properties: message.properties,
});

async function producer(scenario) {
  const made = new Producer(options({ producerGroup: `${prefix}${scenario}_p` }));
  made.on('error', (error) => console.error(error));
  await made.ready();
  return made;
}

function listen(scenario, wanted, listener, more = {}) {
  const made = new Consumer(options({
    consumerGroup: `${prefix}${scenario}_g`,
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    ...more,
  }));
  made.on('error', (error) => console.error(error));
  made.subscribe(`${prefix}${scenario}`, wanted, listener);
  return made;
}

async function until(what, done) {
  for (const end = Date.now() + DEADLINE_MS - 10_000; !done(); await sleep(50)) {
    if (Date.now() > end) throw new Error(`waited too long for ${what}`);
  }
}

async function sendAll(scenario, bodies) {
  const sender = await producer(scenario);
  for (const [tag, body] of bodies) {
    const message = new Message(`${prefix}${scenario}`, tag, body);
    message.keys = ['k1', 'k2'];
    const sent = await sender.send(message);
    tell(scenario, 'sent', {
      body,
      status: sent.sendStatus,
      msgId: sent.msgId,
      queue: Number(sent.messageQueue.queueId),
      offset: Number(sent.queueOffset),
    });
  }
}

const scenarios = {
  async send() {
    let seen = 0;
    await sendAll('send', [['a', 'plain'], ['a', 'grüße 消息 🚀'], ['a', 'packed '.repeat(3_000)]]);
    listen('send', '*', async (message) => {
      tell('send', 'seen', facts(message));
      seen++;
    });
    await until('what was sent', () => seen === 3);
  },

  async tags() {
    let seen = 0;
    const round = (n) => ['a', 'b', 'c'].map((tag) => [tag, tag + n]);
    await sendAll('tags', round(0));
    listen('tags', 'a || c', async (message) => {
      tell('tags', 'seen', facts(message));
      seen++;
    });
    await until('the first round', () => seen === 2);
    await sendAll('tags', round(1));
    await until('the second round', () => seen === 4);
  },

  async retry() {
    let healed = false;
    listen('retry', '*', async (message) => {
      tell('retry', 'seen', facts(message));
      healed = message.reconsumeTimes > 0;
      return healed ? undefined : Consumer.ACTION_RETRY;
    });
    await sendAll('retry', [['a', 'heals']]);
    await until('a second try', () => healed);
  },

  async broadcast() {
    const seen = [0, 0];
    await sendAll('broadcast', [['a', 'm0'], ['a', 'm1'], ['a', 'm2']]);
    for (const member of [0, 1]) {
      listen('broadcast', '*', async (message) => {
        tell('broadcast', `seen by ${member}`, facts(message));
        seen[member]++;
      }, { isBroadcast: true });
    }
    await until('all members', () => seen[0] === 3 && seen[1] === 3);
  },
};

const ends = Object.entries(scenarios).map(([name, play]) =>
  play().then(() => true, (error) => {
    tell(name, 'end', { failure: error.stack });
    return false;
  }));
const late = sleep(DEADLINE_MS).then(() => {
  tell('', 'end', { failure: 'deadline' });
  return [false];
});
Promise.race([Promise.all(ends), late]).then((fine) => process.exit(fine.every(Boolean) ? 0 : 1));
