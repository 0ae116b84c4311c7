// The page: sends what the user has written to a worker, and shows the decisions.

/** Milliseconds after which the worker is ended: of an evaluation, and of a task with all that it loads. */
const EVALUATION_TIMEOUT_MS = 5_000;
const TASK_TIMEOUT_MS = 120_000;
/** Maximum characters of each text. */
const MAX_TEXT_LENGTH = 1_000_000;

/** A worker that is replaced when a task takes too long. */
class Evaluations {
  #worker;
  #pending = new Map();
  #next = 0;

  #start() {
    const worker = new Worker('worker.js', { type: 'module' });
    worker.onmessage = ({ data: { id, value, error, isStarted } }) => {
      const task = this.#pending.get(id);
      clearTimeout(task.timer);
      if (isStarted) {
        task.timer = this.#limit(EVALUATION_TIMEOUT_MS);
        return;
      }
      this.#pending.delete(id);
      if (error === undefined) task.resolve(value);
      else task.reject(new Error(error));
    };
    worker.onerror = () => this.#end('the worker failed to start');
    this.#worker = worker;
  }

  #end(why) {
    this.#worker?.terminate();
    this.#worker = undefined;
    for (const { reject, timer } of this.#pending.values()) {
      clearTimeout(timer);
      reject(new Error(why));
    }
    this.#pending.clear();
  }

  #limit(timeout) {
    return setTimeout(() => this.#end(`stopped after ${timeout / 1000} seconds`), timeout);
  }

  /** Runs a task, in a new worker if the last one was ended. */
  run(task, argument) {
    if (!this.#worker) this.#start();
    const id = this.#next++;
    const timer = this.#limit(TASK_TIMEOUT_MS);
    this.#worker.postMessage({ id, task, argument });
    return new Promise((resolve, reject) => this.#pending.set(id, { resolve, reject, timer }));
  }
}

const find = (id) => document.getElementById(id);
const evaluations = new Evaluations();
let examples = [];
/** The number of the last evaluation: only its result is shown. */
let lastEvaluation = 0;

/** Creates an element with children, which are elements or texts. */
function element(tag, classes, ...children) {
  const created = document.createElement(tag);
  created.className = classes;
  created.append(...children);
  return created;
}

/** The line of a text with its number, the place marked. */
function excerpt(text, line, column) {
  const content = text.split('\n')[line - 1];
  if (content === undefined || content.length > 500) return '';
  const characters = [...content];
  const before = characters.slice(0, column - 1).join('');
  const marked = element('mark', '', characters.slice(column - 1).join(''));
  return element('pre', 'excerpt', `${line} | ${before}`, marked);
}

function violation(found, text) {
  const place = found.line ? `, line ${found.line}, column ${found.column}` : '';
  const item = element('li', 'violation');
  item.append(element('span', found.effect, found.effect), ' ', element('strong', 'rule', found.rule), ` (${found.title}): `);
  item.append(element('span', 'message', found.message));
  if (found.field || place) item.append(element('div', 'place', `${found.field || 'the object'}${place}`));
  item.append(excerpt(text, found.line, found.column));
  return item;
}

function decision(made, text) {
  const section = element('div', 'decision');
  section.append(element('h4', '', made.policy));
  if (made.policyError) section.append(element('p', 'errors', `policy error: ${made.policyError}`));
  section.append(element('ul', '', ...made.violations.map((found) => violation(found, text))));
  const skipped = made.skipped.map(({ rule, reason }) => element('li', 'skipped', `${rule} was not evaluated: ${reason}`));
  section.append(element('ul', '', ...skipped));
  return section;
}

/** The outcome of one object over all policies. */
function outcome(decisions) {
  if (decisions.length === 0) return ['warn', 'not evaluated: no policy matches it'];
  if (decisions.some(({ policyError }) => policyError)) return ['deny', 'failed: a policy returned no verdict'];
  if (decisions.some(({ allowed }) => !allowed)) return ['deny', 'denied'];
  const warns = decisions.some(({ violations }) => violations.some(({ effect }) => effect === 'warn'));
  return warns ? ['warn', 'allowed with warnings'] : ['allow', 'allowed'];
}

function show(results, text) {
  const articles = results.map(({ kind, name, decisions }) => {
    const [style, words] = outcome(decisions);
    const title = element('h3', 'outcome', `${kind} ${name}: `, element('span', style, words));
    return element('article', '', title, ...decisions.map((made) => decision(made, text)));
  });
  find('result').replaceChildren(...articles);
}

function showError(error) {
  find('result').replaceChildren(element('p', 'errors', error.message));
}

/** The texts of the form. Throws if one is too long. */
function readForm() {
  const texts = Object.fromEntries(['input', 'configuration', 'cluster'].map((id) => [id, find(id).value]));
  const long = Object.keys(texts).find((id) => texts[id].length > MAX_TEXT_LENGTH);
  if (long) throw new Error(`${long}: more than ${MAX_TEXT_LENGTH} characters`);
  return { ...texts, policy: find('policy').value };
}

async function evaluate() {
  lastEvaluation += 1;
  const number = lastEvaluation;
  const isLast = () => number === lastEvaluation;
  find('evaluate').disabled = true;
  find('status').textContent = 'evaluating…';
  try {
    const form = readForm();
    const results = await evaluations.run('evaluate', form);
    if (isLast()) show(results, form.input);
  } catch (error) {
    if (isLast()) showError(error);
  } finally {
    if (isLast()) {
      find('evaluate').disabled = false;
      find('status').textContent = '';
    }
  }
}

/** Lists the examples of the chosen policy. */
async function listExamples() {
  const [list, policy] = [find('example'), find('policy').value];
  list.disabled = true;
  examples = [];
  list.replaceChildren(new Option(policy ? 'loading…' : 'choose a policy first', ''));
  if (!policy) return;
  const isChosen = () => find('policy').value === policy;
  let found = [];
  try {
    found = await evaluations.run('cases', { policy });
  } catch (error) {
    if (isChosen()) showError(error);
  }
  if (!isChosen()) return;
  examples = found;
  const options = examples.map(({ rule, name, expects }, index) => new Option(`${rule}: ${name} (${expects})`, index));
  list.replaceChildren(new Option('choose an example', ''), ...options);
  list.disabled = false;
}

/** Writes a chosen example into the form. */
function fillExample() {
  const chosen = examples[find('example').value];
  if (!chosen) return;
  const { profile, rules, settings } = JSON.parse(chosen.configuration);
  const policy = { name: find('policy').value, rules, settings };
  const configuration = { apiVersion: 'opgate.dev/v1alpha1', kind: 'Configuration', ...(profile && { profile }), policies: [policy] };
  const isDefault = !profile && Object.keys({ ...rules, ...settings }).length === 0;
  find('input').value = JSON.stringify(JSON.parse(chosen.review), null, 2);
  find('configuration').value = isDefault ? '' : JSON.stringify(configuration, null, 2);
  find('cluster').value = chosen.cluster ? JSON.stringify({ apiVersion: 'v1', kind: 'List', items: JSON.parse(chosen.cluster) }, null, 2) : '';
  evaluate();
}

/** Reads a dropped file into a text field. */
async function readDropped(event) {
  event.preventDefault();
  event.currentTarget.classList.remove('dragged');
  const file = event.dataTransfer.files[0];
  if (!file) return;
  const field = event.target;
  if (file.size > MAX_TEXT_LENGTH) showError(new Error(`${file.name}: more than ${MAX_TEXT_LENGTH} bytes`));
  else field.value = await file.text();
}

async function start() {
  const list = await (await fetch('policies.json')).json();
  find('policy').append(...list.map(({ name, title }) => new Option(`${name}: ${title}`, name)));
  find('form').addEventListener('submit', (event) => {
    event.preventDefault();
    evaluate();
  });
  find('policy').addEventListener('change', listExamples);
  find('example').addEventListener('change', fillExample);
  for (const field of document.querySelectorAll('textarea')) {
    field.addEventListener('dragover', (event) => event.preventDefault());
    field.addEventListener('dragenter', () => field.classList.add('dragged'));
    field.addEventListener('dragleave', () => field.classList.remove('dragged'));
    field.addEventListener('drop', readDropped);
  }
  find('status').textContent = 'ready';
}

start().catch(showError);
