// Libraries of Node.js that keep their things in Redis, unmodified. Run by hand, against a server that is up:
//
//   npm install --prefix DIR ioredis redis rate-limiter-flexible connect-redis express-session redlock
//   cp tests/node/libraries.mjs DIR && SHARDINE_REDIS_PORT=7379 node DIR/libraries.mjs

import assert from 'node:assert/strict';
import { promisify } from 'node:util';
import { RedisStore } from 'connect-redis';
import Redis from 'ioredis';
import { RateLimiterRedis } from 'rate-limiter-flexible';
import { createClient } from 'redis';
import Redlock from 'redlock';

const port = Number(process.env.SHARDINE_REDIS_PORT ?? 7379);
const url = `redis://127.0.0.1:${port}`;
const io = new Redis(port);
const node = await createClient({ url }).connect();
let failed = 0;

async function claim(what, work) {
  try {
    await work();
    console.log('held  ', what);
  } catch (error) {
    failed += 1;
    console.log('FAILED', what, error);
  }
}

async function limits(limiter) {
  await limiter.delete('user');
  for (let i = 0; i < 3; i += 1) await limiter.consume('user');
  const refusal = await limiter.consume('user').then(() => null, (refused) => refused);
  assert.ok(refusal?.msBeforeNext > 0);
  await limiter.penalty('user', 1);
  await limiter.reward('user', 1);
  await limiter.block('user', 60);
  assert.ok((await limiter.get('user')).msBeforeNext > 5_000);
  await limiter.delete('user');
}

await claim('ioredis: strings, hashes, pipelines, transactions', async () => {
  await io.set('io', '1');
  await io.hset('ioh', { a: 1, b: 2 });
  assert.deepEqual(await io.hgetall('ioh'), { a: '1', b: '2' });
  assert.deepEqual(await io.pipeline().incr('io').get('io').exec(), [[null, 2], [null, '2']]);
  assert.deepEqual(await io.multi().set('{io}a', 1).incr('{io}a').exec(), [[null, 'OK'], [null, 2]]);
});

await claim('ioredis: commands that are scripts', async () => {
  await io.set('io', '2');
  io.defineCommand('addTo', { numberOfKeys: 1, lua: "return redis.call('incrby', KEYS[1], ARGV[1])" });
  assert.equal(await io.addTo('io', 5), 7);
  assert.deepEqual(await io.pipeline().addTo('io', 1).addTo('io', 1).exec(), [[null, 8], [null, 9]]);
});

await claim('ioredis: scans, prefixes, pipelines by themselves', async () => {
  const found = [];
  for await (const keys of io.scanStream({ match: 'io*' })) found.push(...keys);
  assert.deepEqual(found.sort(), ['io', 'ioh']);
  const other = new Redis(port, { keyPrefix: 'pre:', enableAutoPipelining: true });
  await Promise.all([...Array(50)].map(() => other.incr('n')));
  assert.equal(await io.get('pre:n'), '50');
  await other.del('n');
  await other.quit();
});

await claim('ioredis: no channels', async () => {
  const other = io.duplicate();
  await assert.rejects(other.subscribe('channel'), /unsupported/);
  other.disconnect();
});

await claim('node-redis: strings, hashes, transactions, scripts, both protocols', async () => {
  await node.set('nr', '9', { expiration: { type: 'EX', value: 100 } });
  assert.equal(await node.get('nr'), '9');
  assert.deepEqual(await node.multi().set('{nr}a', '1').incr('{nr}a').exec(), ['OK', 2]);
  assert.equal(await node.eval("return redis.call('get', KEYS[1])", { keys: ['nr'] }), '9');
  const third = await createClient({ url, RESP: 3 }).connect();
  await third.hSet('nrh', { a: '1' });
  assert.equal((await third.hGetAll('nrh')).a, '1');
  await third.close();
});

await claim('node-redis: watched keys, scans', async () => {
  const other = await node.duplicate().connect();
  await other.watch('nr');
  await node.set('nr', '10');
  await assert.rejects(other.multi().set('nr', '11').exec());
  await other.close();
  const found = [];
  for await (const keys of node.scanIterator({ MATCH: 'nr*' })) found.push(...keys);
  assert.deepEqual(found.sort(), ['nr', 'nrh']);
});

await claim('rate-limiter-flexible on both', async () => {
  await limits(new RateLimiterRedis({ storeClient: io, points: 3, duration: 50, keyPrefix: 'one' }));
  const package_ = { storeClient: node, useRedisPackage: true };
  await limits(new RateLimiterRedis({ ...package_, points: 3, duration: 50, keyPrefix: 'two' }));
});

await claim('connect-redis', async () => {
  const store = new RedisStore({ client: node, prefix: 'session:' });
  const say = (name) => promisify(store[name]).bind(store);
  await say('set')('id', { cookie: { originalMaxAge: 10_000 }, user: 1 });
  assert.equal((await say('get')('id')).user, 1);
  await say('touch')('id', { cookie: { originalMaxAge: 20_000 } });
  assert.deepEqual([(await say('all')()).length, await say('length')(), await say('ids')()], [1, 1, ['id']]);
  await say('destroy')('id');
  await say('clear')();
});

await claim('redlock', async () => {
  const lock = await new Redlock([io]).lock('lock', 60_000);
  await lock.extend(60_000);
  await lock.unlock();
});

await io.del('io', 'ioh', '{io}a', 'nr', 'nrh', '{nr}a');
io.disconnect();
await node.close();
process.exit(failed === 0 ? 0 : 1);
