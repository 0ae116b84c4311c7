// A policy has no clock, no randomness, no timers and no network, and is told so.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createContext, runInContext } from 'node:vm';

import { takeAway } from '../src/without.js';

test('what would differ between calls throws, and says why', () => {
  // In a realm of its own: other tests need a clock.
  const realm = createContext({ performance: {}, crypto: {}, fetch() {}, setTimeout() {}, setInterval() {} });
  runInContext(`(${takeAway.toString().replace('{', `{ const refuse = ${REFUSE};`)})()`, realm);
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
