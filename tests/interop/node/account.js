// Does one thing with an account and says how that went.
//
// Usage: node account.js NAMESRV BROKER KEY SECRET VERB NAME...
//
// The words are those of support/interop/account_programs.py; a minus sign is no account.
'use strict';

const readline = require('readline');
const { Consumer, Producer, Message } = require('ali-ons');

const [namesrv, , key, secret, verb, ...names] = process.argv.slice(2);
const said = (error) => `${error.code} ${error.message}`.replaceAll('\n', ' ');
const quiet = { debug() {}, info() {}, warn() {}, error(...args) { console.error(...args); } };

const options = (more) => ({
  nameSrv: namesrv,
  httpclient: {}, // demanded, and not used when name servers are given
  logger: quiet,
  rebalanceInterval: 1_000,
  ...(key === '-' ? {} : { accessKey: key, secretKey: secret }),
  ...more,
});

async function send(topic) {
  const producer = new Producer(options({
    producerGroup: 'producers',
    retryTimesWhenSendFailed: 0,
    sendMsgTimeout: 15_000,
  }));
  producer.on('error', (error) => console.error(error));
  await producer.ready();
  await producer.send(new Message(topic, 'a', 'hello'));
}

// Consumes until it is killed.  It says which wanted messages came; BACK fails each of them once,
// when a line of input says so.  A message may come before the consumer is ready: it waits.
async function push(group, topic, wanted) {
  const input = readline.createInterface({ input: process.stdin });
  const consumer = new Consumer(options({
    consumerGroup: group,
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
  }));
  consumer.on('error', (error) => console.error(error));
  let start;
  const started = new Promise((resolve) => { start = resolve; });
  consumer.subscribe(topic, '*', async (message) => {
    if (message.body.toString() !== wanted) return undefined;
    await started;
    console.log(`HEARD ${message.reconsumeTimes}`);
    if (verb !== 'BACK' || message.reconsumeTimes > 0) return undefined;
    await new Promise((resolve) => input.once('line', resolve));
    return Consumer.ACTION_RETRY;
  });
  await consumer.ready();
  console.log('STARTED');
  start();
  await new Promise(() => {});
}

const verbs = { SEND: send, PUSH: push, BACK: push };

verbs[verb](...names).then(
  () => console.log('OK'),
  (error) => console.log(`FAILED ${said(error)}`),
).then(() => process.exit(0));
