// Unsupported features: a clock, randomness, timers and a network. The engine would return the time of the
// build, the same numbers in every call, or a trap without a message.

const refuse = (what, has) => () => {
  throw new Error(`${what}: a policy has no ${has}, so that the same request always gets the same verdict`);
};

/** Replaces unsupported features by functions that throw. The build calls it after the author's module. */
export function removeUnsupported() {
  const noClock = refuse('the current time', 'clock');
  const { Date } = globalThis;
  const put = (name, value) => Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  const instead = new Proxy(Date, {
    apply: noClock,
    construct: (target, given, made) => (given.length === 0 ? noClock() : Reflect.construct(target, given, made)),
    get: (target, name, receiver) => (name === 'now' ? noClock : Reflect.get(target, name, receiver)),
  });
  put('Date', instead);
  put('performance', { now: noClock });
  put('crypto', { getRandomValues: refuse('crypto', 'randomness'), randomUUID: refuse('crypto', 'randomness') });
  put('fetch', refuse('fetch', 'network'));
  for (const name of ['setTimeout', 'setInterval']) put(name, refuse(name, 'timers'));
  Math.random = refuse('Math.random', 'randomness');
}
