// Unsupported features throw: a clock, randomness, timers and a network.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createContext, runInContext } from 'node:vm';

import { removeUnsupported } from '../src/unsupported.js';

test('unsupported features throw an error with the reason', () => {
  // In a separate realm: other tests need a clock.
  const realm = createContext({ performance: {}, crypto: {}, fetch() {}, setTimeout() {}, setInterval() {} });
  runInContext(`(${removeUnsupported.toString().replace('{', `{ const refuse = ${REFUSE};`)})()`, realm);
  for (const [code, text] of [
    ['Date.now()', /the current time: a policy has no clock/],
    ['new Date()', /no clock/],
    ['Date()', /no clock/],
    ['performance.now()', /no clock/],
    ['Math.random()', /Math.random: a policy has no randomness/],
    ['crypto.randomUUID()', /no randomness/],
    ['setTimeout(() => {})', /no timers/],
    ["fetch('http://a')", /no network/],
  ]) {
    assert.throws(() => runInContext(code, realm), { message: text }, code);
  }
  assert.equal(runInContext("new Date('2026-01-01T00:00:00Z').toISOString() + Date.parse('1970-01-01T00:00:00Z')", realm), '2026-01-01T00:00:00.000Z0');
  assert.equal(runInContext('new Date(0) instanceof Date', realm), true);
});

const REFUSE = '(what, has) => () => { throw new Error(`${what}: a policy has no ${has}`); }';
