// componentize-js, with its bindings compiled in the snapshot.
//
// The engine compiles a function when it is first called, and every call of a policy starts from the snapshot.
// The bindings are 2,800 lines; compiled in each call, they are a third of the instructions of a small policy. So a
// few lines behind them call each function that a review needs, in a way that fails at its first step and
// changes nothing. It is only about time: if a later version names things differently, nothing is called.

/** Makes the component of a bundle. The options are those of componentize-js. */
export async function componentize(options) {
  const main = import.meta.resolve('@bytecodealliance/componentize-js');
  const [engine, { splicer }] = await Promise.all([
    import(main),
    import(new URL('../lib/spidermonkey-embedding-splicer.js', main)),
  ]);
  const { spliceBindings } = splicer;
  splicer.spliceBindings = (...given) => {
    const made = spliceBindings(...given);
    return { ...made, jsBindings: made.jsBindings + compiled(made.jsBindings) };
  };
  try {
    return await engine.componentize(options);
  } finally {
    splicer.spliceBindings = spliceBindings;
  }
}

/** Statements that compile the functions of the bindings. */
export function compiled(bindings) {
  const names = (pattern) => [...bindings.matchAll(pattern)].map(([, name]) => name);
  const exported = names(/^async function (export_validate\w*)\(/gm);
  const classes = names(/^class (import_\w+\$(?:Document|Request)) /gm);
  const imported = names(/^function (import_opgate_policy_cluster_\w+\$(?:get|list|names))\(/gm);
  const encode = names(/^function (_utf8AllocateAndEncode)\(/gm);
  return `
{
  const fails = (call) => { try { call(); } catch {} };
  const { defineProperty } = Object;
  // The first thing that an export does with a handle.
  Object.defineProperty = () => { throw new Error(); };
  for (const call of [${exported}]) call(0, 0, 0, 0, 0, 0, 0, 0, 0).catch(() => {});
  Object.defineProperty = defineProperty;
  // The first thing that a method does is to look into this, or to write a text.
  for (const { prototype } of [${classes}]) {
    for (const name of Object.getOwnPropertyNames(prototype)) {
      if (name !== 'constructor') fails(() => prototype[name].call(undefined));
    }
  }
  for (const call of [${imported}]) fails(() => call());
  for (const call of [${encode}]) fails(() => call('a', () => { throw new Error(); }));
}
`;
}
