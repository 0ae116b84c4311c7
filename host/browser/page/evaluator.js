// Evaluates reviews: connects the host component and the policies, which jco has transpiled.
//
//   review, configuration, cluster state ─▶ host: begin ─▶ policy: validate ─▶ host: finish ─▶ decision
//
// A policy gets a new instance for each call, as on a server. Its compiled modules are kept.

/** Imports of policies, by their names in transpiled components. */
const INTERFACES = ['request', 'document', 'log', 'cluster'];

/**
 * Tries of an instance, and the milliseconds between them. A browser has addresses for about 100 memories in a process,
 * and a worker that was ended gives its own back some time later: until then, an instance fails with a `RangeError`.
 */
const INSTANCE_TRIES = 20;
const INSTANCE_RETRY_MS = 200;

/** Releases a resource; jco uses another symbol where browsers have none. */
const DISPOSE = Symbol.dispose ?? Symbol.for('dispose');

export class Evaluator {
  #read;
  #load;
  #modules = new Map();
  #components = new Map();
  #descriptors = new Map();
  #host;

  /** Creates an evaluator. `read` gets the bytes of a file of the page, `load` imports a script of it. */
  static async create(read, load) {
    const evaluator = new Evaluator();
    evaluator.#read = read;
    evaluator.#load = load;
    evaluator.#host = await evaluator.#instantiate('host/browser', {});
    return evaluator;
  }

  /** The functions of the host that need no policy. */
  get host() {
    return this.#host.evaluation;
  }

  /** Instantiates a component. */
  async #instantiate(path, imports) {
    if (!this.#components.has(path)) this.#components.set(path, await this.#load(`${path}.js`));
    const directory = path.slice(0, path.lastIndexOf('/'));
    const compile = async (name) => {
      const file = `${directory}/${name}`;
      if (!this.#modules.has(file)) this.#modules.set(file, await WebAssembly.compile(await this.#read(file)));
      return this.#modules.get(file);
    };
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#components.get(path).instantiate(compile, imports);
      } catch (error) {
        if (!(error instanceof RangeError) || tries === INSTANCE_TRIES) throw error;
        await new Promise((resolve) => setTimeout(resolve, INSTANCE_RETRY_MS));
      }
    }
  }

  /** A new instance of a policy. */
  #policy(name) {
    const imports = INTERFACES.map((interface_) => [`opgate:policy/${interface_}`, this.#host[interface_]]);
    return this.#instantiate(`policies/${name}/${name}`, Object.fromEntries(imports));
  }

  /** The descriptor of a policy. */
  async describe(name) {
    if (!this.#descriptors.has(name)) this.#descriptors.set(name, (await this.#policy(name)).describe());
    return this.#descriptors.get(name);
  }

  /** Loads a policy with a configuration, JSON. Throws a `ConfigurationError` if it does not fit. */
  async load(name, configuration) {
    const descriptor = await this.describe(name);
    const loaded = attempt(() => this.host.LoadedPolicy.load(descriptor, configuration));
    if ('error' in loaded) throw new ConfigurationError(loaded.error);
    const policy = loaded.value;
    const instance = await this.#policy(name);
    const settings = policy.settings();
    const checked = attempt(() => instance.validateSettings(settings));
    if ('error' in checked) throw new ConfigurationError(policy.settingsErrors(checked.error));
    return policy;
  }

  /** The decision of a loaded policy on a review, JSON; none if the policy does not match it. */
  async evaluate(name, policy, review, cluster) {
    const begun = attempt(() => policy.begin(review, cluster));
    if ('error' in begun) throw new InputError(begun.error);
    const call = begun.value;
    if (!call) return undefined;
    const instance = await this.#policy(name);
    let verdict;
    const { operation, routes, request, object, oldObject, settings } = call;
    try {
      verdict = { tag: 'ok', val: instance.validate(operation, routes, request, object, oldObject, settings) };
    } catch (error) {
      verdict = { tag: 'err', val: `trapped: ${error?.message ?? error}` };
    }
    for (const handle of [request, object, oldObject, settings]) handle?.[DISPOSE]();
    return JSON.parse(policy.finish(verdict));
  }
}

/** Errors in a configuration, a line each. */
export class ConfigurationError extends Error {
  constructor(lines) {
    super(lines.join('\n'));
    this.lines = lines;
  }
}

/** An input that cannot be evaluated. */
export class InputError extends Error {}

/** The value of a function of a component, or the error that it returned. Other errors are thrown. */
export function attempt(call) {
  try {
    return { value: call() };
  } catch (error) {
    // A component throws what it returns as an error: a text or a list.
    if (typeof error === 'string' || Array.isArray(error)) return { error };
    throw error;
  }
}
