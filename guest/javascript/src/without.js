// What a policy does not have: a clock, randomness, timers and a network. The engine would answer with the
// time of the build, with the same numbers in every call, or with a trap that says nothing.

const refuse = (what, has) => () => {
  throw new Error(`${what}: a policy has no ${has}, so that the same request always gets the same verdict`);
};

/** Replaces what is not there by functions that say so. The build calls it behind the author's module. */
export function takeAway() {
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
