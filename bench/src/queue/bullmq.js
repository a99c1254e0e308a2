// The rival of the queue bench. Reads `add <queue> <n> <lanes>` or `work <queue> <n> <concurrency>` and answers
// with the milliseconds each took.
const { Queue, Worker } = require('bullmq');
const readline = require('readline');
const [port, bytes] = process.argv.slice(2).map(Number);
const connection = { host: '127.0.0.1', port };
const payload = 'x'.repeat(bytes - 2);
const options = { removeOnComplete: true };

async function fill(queue, count, lanes, opts) {
  let left = Math.ceil(count / 1000);
  const lane = async () => {
    while (left-- > 0) await queue.addBulk(Array.from({ length: 1000 }, () => ({ name: 'j', data: payload, opts })));
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}

async function add(name, count, lanes) {
  const queue = new Queue(name, { connection });
  await queue.waitUntilReady();
  const began = process.hrtime.bigint();
  await fill(queue, count, lanes, { ...options, delay: 3600000 });
  const took = Number(process.hrtime.bigint() - began) / 1e6;
  await queue.close();
  return took;
}

async function work(name, count, concurrency) {
  const queue = new Queue(name, { connection });
  await queue.waitUntilReady();
  await fill(queue, count, 4, options);
  let done = 0;
  let began;
  const worker = new Worker(name, async () => {}, { connection, concurrency, autorun: false });
  await worker.waitUntilReady();
  const took = await new Promise((resolve) => {
    worker.on('completed', () => {
      if (++done === count) resolve(Number(process.hrtime.bigint() - began) / 1e6);
    });
    began = process.hrtime.bigint();
    worker.run();
  });
  await worker.close();
  await queue.close();
  return took;
}

(async () => {
  console.log('ready');
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [verb, name, count, many] = line.split(' ');
    console.log(await (verb === 'add' ? add : work)(name, Number(count), Number(many)));
  }
})();
