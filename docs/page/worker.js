// Trains one model apart from the page, and posts what the page shows: { step, bits, losses, text }.
// The page ends a worker to stop it.
import { Model, Writer, lossAt, random, randomBatches, sample, train } from "./model.js";

export const LENGTHS = [1, 2, 4, 8, 16];  // of the tests, in training lengths
const TARGETS = 4096, CHECKPOINTS = 6, TEMPERATURE = 0.4;

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

/** The rows of a race's lane: the loss of every tenth step, and tests at checkpoints. */
export function* lane(config, { training, validation, prompt, length, batch, steps, rate, seed, count }) {
  const model = new Model(config).initialize(seed), started = performance.now();
  const every = Math.ceil(steps / CHECKPOINTS), batches = randomBatches(training, batch, length, seed);
  let step = 0;
  for (const bits of train(model, batches, { batch, length, steps, rate })) {
    step++;
    const row = { step, bits, seconds: (performance.now() - started) / 1000 };
    if (step % every === 0 || step === steps) {
      row.losses = LENGTHS.map((times) => lossAt(model, validation, times * length, TARGETS));
      row.texts = [1, 2, 3, 4].map((seed) => [...write(model, prompt, count, { seed })].filter((token) => token !== null));
    }
    if (row.losses || step % 10 === 0) yield row;
  }
}

if (typeof WorkerGlobalScope !== "undefined") {
  self.onmessage = ({ data }) => {
    for (const row of lane(data.config, data.settings)) self.postMessage(row);
  };
}
