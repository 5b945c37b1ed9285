// Trains one model apart from the page, and posts what the page shows: { step, bits, losses, text }.
// The page ends a worker to stop it.
import { Model, Writer, lossAt, random, randomBatches, sample, train } from "./model.js";

export const LENGTHS = [1, 2, 4, 8, 16];  // of the tests, in training lengths
const TARGETS = 1024, FINAL_TARGETS = 4096;  // tokens of a test, and of the last one
const TEXTS = 4;  // that a model writes at the end; before, it is one
const TEMPERATURE = 0.4;

/** Continue the tokens of a prompt by `count` tokens. Yields null for each token that is read, so that a page can pause. */
export function* write(model, prompt, count, { seed = 1, ...changes } = {}) {
  const writer = new Writer(model, changes), next = random(seed);
  let logits;
  for (const token of prompt) {
    logits = writer.read(token);
    yield null;
  }
  for (let n = 0; n < count; n++) {
    const token = sample(logits, TEMPERATURE, next);
    yield token;
    logits = writer.read(token);
  }
}

/** Whether a model is tested after a step: often at first, when it learns fastest. */
function isTested(step, steps) {
  const every = step <= 100 ? 25 : 50;
  return step % every === 0 || step === steps;
}

/** The rows of a race's lane: the loss of every tenth step, and tests at step 0 and at checkpoints. */
export function* lane(config, { training, validation, prompt, length, batch, steps, rate, seed, count }) {
  const model = new Model(config).initialize(seed);
  const started = performance.now();
  const secondsNow = () => (performance.now() - started) / 1000;

  const test = (step) => {
    const isLast = step === steps;
    const targets = isLast ? FINAL_TARGETS : TARGETS;
    const seeds = isLast ? Array.from({ length: TEXTS }, (_, n) => n + 1) : [1];
    return {
      losses: LENGTHS.map((times) => lossAt(model, validation, times * length, targets)),
      texts: seeds.map((seed) => [...write(model, prompt, count, { seed })].filter((token) => token !== null)),
    };
  };

  yield { step: 0, seconds: secondsNow(), ...test(0) };
  let step = 0;
  for (const bits of train(model, randomBatches(training, batch, length, seed), { batch, length, steps, rate })) {
    step++;
    const result = isTested(step, steps) ? test(step) : {};
    if (result.losses || step % 10 === 0) yield { step, bits, seconds: secondsNow(), ...result };
  }
}

if (typeof WorkerGlobalScope !== "undefined") {
  self.onmessage = ({ data }) => {
    for (const row of lane(data.config, data.settings)) self.postMessage(row);
  };
}
