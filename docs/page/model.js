// A small transformer that trains and writes in the browser: the arithmetic of alibi_viz.models and alibi_viz.lab.
//
// Vectors are rows. A matrix [n, m] is a Float32Array of n * m numbers, row after row, as in PyTorch.

/** C = A B^T for A [n, k] and B [m, k], so every entry is a dot product of two rows. Adds to C if `add` is true. */
export function dots(a, b, c, n, m, k, add = false) {
  const blocked = n - (n % 4), pairs = m - (m % 2);
  for (let j = 0; j < pairs; j += 2) {
    const b0 = j * k, b1 = b0 + k;
    for (let i = 0; i < blocked; i += 4) {  // 4 x 2 dot products at a time: each number is read once for several
      const a0 = i * k, a1 = a0 + k, a2 = a1 + k, a3 = a2 + k;
      let s00 = 0, s01 = 0, s10 = 0, s11 = 0, s20 = 0, s21 = 0, s30 = 0, s31 = 0;
      for (let t = 0; t < k; t++) {
        const x = b[b0 + t], y = b[b1 + t];
        const p = a[a0 + t], q = a[a1 + t], r = a[a2 + t], s = a[a3 + t];
        s00 += p * x; s01 += p * y; s10 += q * x; s11 += q * y;
        s20 += r * x; s21 += r * y; s30 += s * x; s31 += s * y;
      }
      const at = i * m + j;
      if (!add) c[at] = c[at + 1] = c[at + m] = c[at + m + 1] = c[at + 2 * m] = c[at + 2 * m + 1] = c[at + 3 * m] = c[at + 3 * m + 1] = 0;
      c[at] += s00; c[at + 1] += s01; c[at + m] += s10; c[at + m + 1] += s11;
      c[at + 2 * m] += s20; c[at + 2 * m + 1] += s21; c[at + 3 * m] += s30; c[at + 3 * m + 1] += s31;
    }
  }
  const rest = (firstRow, firstColumn) => {  // what is left over, one dot product at a time
    for (let i = firstRow; i < n; i++) {
      for (let j = firstColumn; j < m; j++) {
        let sum = 0;
        for (let t = 0; t < k; t++) sum += a[i * k + t] * b[j * k + t];
        c[i * m + j] = (add ? c[i * m + j] : 0) + sum;
      }
    }
  };
  if (blocked < n) rest(blocked, 0);
  if (pairs < m) for (let i = 0; i < blocked; i++) {
    const j = m - 1;
    let sum = 0;
    for (let t = 0; t < k; t++) sum += a[i * k + t] * b[j * k + t];
    c[i * m + j] = (add ? c[i * m + j] : 0) + sum;
  }
}

/** The transpose [m, n] of a matrix [n, m]. */
export function transpose(a, n, m) {
  const out = new Float32Array(n * m);
  for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) out[j * n + i] = a[i * m + j];
  return out;
}

/** The distribution function of the normal distribution, to 1e-7 (Abramowitz and Stegun 1964, formula 7.1.26). */
function normal(x) {
  const z = Math.abs(x) * Math.SQRT1_2, t = 1 / (1 + 0.3275911 * z);
  const poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  const tail = 0.5 * poly * Math.exp(-z * z);
  return x > 0 ? 1 - tail : tail;
}

/** The official slopes of ALiBi (Press et al. 2021): those of a power of two, then every other one of twice as many. */
export function alibiSlopes(heads) {
  const power = 2 ** Math.floor(Math.log2(heads));
  const geometric = (count) => Array.from({ length: count }, (_, h) => 2 ** ((-8 * (h + 1)) / count));
  const others = geometric(2 * power).filter((_, h) => h % 2 === 0);
  return [...geometric(power), ...others.slice(0, heads - power)];
}

/** How the bias of head h = 1, ..., heads depends on the distance d: the functions of alibi_viz/laws.py. */
export const LAWS = {
  linear: (d, h, heads) => -alibiSlopes(heads)[h - 1] * d,
  square_root: (d, h, heads) => -alibiSlopes(heads)[h - 1] * Math.sqrt(d),
  logarithmic: (d, h, heads) => ((-2 * h) / heads) * Math.log1p(d),
  power: (d, h, heads) => -alibiSlopes(heads)[h - 1] * d ** (h / heads),
  window: (d, h) => (d >= 2 ** Math.min(h + 2, 62) ? -Infinity : 0),
};

/** A random number generator with a seed (mulberry32): numbers from 0 to below 1. */
export function random(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** The names and shapes of the weights, as in the state dict of a `LanguageModel`. */
export function shapes({ layers, width, vocabulary }) {
  const norm = (name) => [[`${name}.weight`, [width]], [`${name}.bias`, [width]]];
  const blocks = Array.from({ length: layers }, (_, layer) => `transformer.blocks.${layer}.`).flatMap((block) => [
    ...norm(`${block}norm_attention`),
    [`${block}attention.qkv.weight`, [3 * width, width]],
    [`${block}attention.output.weight`, [width, width]],
    ...norm(`${block}norm_feed_forward`),
    [`${block}feed_forward.0.weight`, [4 * width, width]],
    [`${block}feed_forward.0.bias`, [4 * width]],
    [`${block}feed_forward.2.weight`, [width, 4 * width]],
    [`${block}feed_forward.2.bias`, [width]],
  ]);
  return [["embedding.weight", [vocabulary, width]], ...blocks, ...norm("transformer.norm"), ["head.weight", [vocabulary, width]]];
}

/**
 * A causal language model: `LanguageModel` of alibi_viz, for positions "alibi", "sinusoidal", "rotary" and "none".
 *
 * `weights` and `gradients` are one long array each; `weight(name)` and `gradient(name)` are views of a part.
 */
export class Model {
  constructor(config) {
    this.config = config;
    const { width, heads, position } = config;
    this.slopes = position === "alibi" ? (config.slopes ?? alibiSlopes(heads)) : new Array(heads).fill(0);
    this.frequencies = Array.from({ length: width / heads / 2 }, (_, k) => 10000 ** ((-2 * k) / (width / heads)));
    this.parts = new Map();
    let size = 0;
    for (const [name, shape] of shapes(config)) {
      const length = shape.reduce((product, n) => product * n);
      this.parts.set(name, [size, size + length]);
      size += length;
    }
    this.weights = new Float32Array(size);
    this.gradients = new Float32Array(size);
  }

  weight(name) { return this.weights.subarray(...this.parts.get(name)); }
  gradient(name) { return this.gradients.subarray(...this.parts.get(name)); }

  /** Random weights with the distributions of the Python model. */
  initialize(seed) {
    const next = random(seed);
    const gauss = () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
    for (const [name, shape] of shapes(this.config)) {
      const weight = this.weight(name);
      const inputs = name.includes("feed_forward.2") ? 4 * this.config.width : this.config.width;
      if (name.includes("norm")) weight.fill(name.endsWith("weight") ? 1 : 0);
      else if (name.startsWith("embedding")) for (let i = 0; i < weight.length; i++) weight[i] = 0.5 * gauss();
      else for (let i = 0; i < weight.length; i++) weight[i] = (2 * next() - 1) / Math.sqrt(inputs);
    }
    return this;
  }

  /** What is added to the vector of a token at this position: a sinusoid, or nothing. */
  addPosition(x, row, position) {
    if (this.config.position !== "sinusoidal") return;
    const { width } = this.config;
    for (let c = 0; c < width; c++) {
      const angle = position * 10000 ** (-(c - (c % 2)) / width);
      x[row * width + c] += c % 2 ? Math.cos(angle) : Math.sin(angle);
    }
  }

  /** Rotate the query and the key in a row of qkv by their position; backwards for gradients. */
  rotate(qkv, row, position, direction = 1) {
    if (this.config.position !== "rotary") return;
    const { width, heads } = this.config, half = width / heads / 2;
    for (let h = 0; h < 2 * heads; h++) {  // the queries of all heads, then the keys
      for (let k = 0; k < half; k++) {
        const first = row * 3 * width + h * 2 * half + k, second = first + half;
        const angle = direction * position * this.frequencies[k], cos = Math.cos(angle), sin = Math.sin(angle);
        [qkv[first], qkv[second]] = [qkv[first] * cos - qkv[second] * sin, qkv[second] * cos + qkv[first] * sin];
      }
    }
  }

  /** Logits [batch * length, vocabulary] of token ids [batch, length]. Keeps what `backward` needs if `training`. */
  forward(tokens, batch, length, training = false) {
    const { layers, width, vocabulary } = this.config, rows = batch * length;
    let x = new Float32Array(rows * width);
    const embedding = this.weight("embedding.weight");
    for (let row = 0; row < rows; row++) {
      x.set(embedding.subarray(tokens[row] * width, (tokens[row] + 1) * width), row * width);
      this.addPosition(x, row, row % length);
    }
    this.saved = { tokens, batch, length, blocks: [] };
    for (let layer = 0; layer < layers; layer++) x = this.block(`transformer.blocks.${layer}.`, x, batch, length, training);
    const last = this.norm("transformer.norm", x);
    const logits = new Float32Array(rows * vocabulary);
    dots(last.out, this.weight("head.weight"), logits, rows, vocabulary, width);
    if (training) this.saved.last = last;
    return logits;
  }

  /** Layer normalization. */
  norm(name, x) {
    const { width } = this.config, rows = x.length / width;
    const gain = this.weight(`${name}.weight`), shift = this.weight(`${name}.bias`);
    const out = new Float32Array(x.length), normal = new Float32Array(x.length), scale = new Float32Array(rows);
    for (let row = 0; row < rows; row++) {
      const at = row * width;
      let mean = 0, variance = 0;
      for (let c = 0; c < width; c++) mean += x[at + c] / width;
      for (let c = 0; c < width; c++) variance += (x[at + c] - mean) ** 2 / width;
      scale[row] = 1 / Math.sqrt(variance + 1e-5);
      for (let c = 0; c < width; c++) {
        normal[at + c] = (x[at + c] - mean) * scale[row];
        out[at + c] = normal[at + c] * gain[c] + shift[c];
      }
    }
    return { name, out, normal, scale };
  }

  /** x + attention(norm(x)), then x + feed_forward(norm(x)). */
  block(name, x, batch, length, training) {
    const { width } = this.config, rows = batch * length;
    const before = this.norm(`${name}norm_attention`, x), qkv = new Float32Array(rows * 3 * width);
    dots(before.out, this.weight(`${name}attention.qkv.weight`), qkv, rows, 3 * width, width);
    for (let row = 0; row < rows; row++) this.rotate(qkv, row, row % length);
    const { attended, shares } = this.attend(qkv, batch, length, training);
    const middle = x.slice();
    dots(attended, this.weight(`${name}attention.output.weight`), middle, rows, width, width, true);
    const second = this.norm(`${name}norm_feed_forward`, middle), hidden = new Float32Array(rows * 4 * width);
    dots(second.out, this.weight(`${name}feed_forward.0.weight`), hidden, rows, 4 * width, width);
    const slope = new Float32Array(hidden.length);
    gelu(hidden, this.weight(`${name}feed_forward.0.bias`), slope);
    const out = addToRows(middle.slice(), this.weight(`${name}feed_forward.2.bias`));
    dots(hidden, this.weight(`${name}feed_forward.2.weight`), out, rows, width, 4 * width, true);
    if (training) this.saved.blocks.push({ name, before, qkv, attended, shares, second, hidden, slope });
    return out;
  }

  /** Causal attention with the bias -m (i - j). `shares` are the weights of all heads, kept for `backward`. */
  attend(qkv, batch, length, training) {
    const { width, heads } = this.config, size = width / heads, stride = 3 * width;
    const attended = new Float32Array(batch * length * width);
    const shares = new Float32Array(training ? batch * heads * length * length : length);
    for (let b = 0; b < batch; b++) for (let h = 0; h < heads; h++) for (let i = 0; i < length; i++) {
      const query = (b * length + i) * stride + h * size, out = (b * length + i) * width + h * size;
      const at = training ? ((b * heads + h) * length + i) * length : 0;
      softmaxRow(qkv, query, b * length * stride + width + h * size, stride, size, i, this.slopes[h], shares, at);
      for (let j = 0; j <= i; j++) {
        const value = (b * length + j) * stride + 2 * width + h * size;
        for (let c = 0; c < size; c++) attended[out + c] += shares[at + j] * qkv[value + c];
      }
    }
    return { attended, shares };
  }

  /** Add the gradients of the weights to `gradients`, from those of the logits of the last `forward`. */
  backward(dlogits) {
    const { width, vocabulary } = this.config, { tokens, last, blocks } = this.saved;
    let dx = this.normBackward(last, this.product(dlogits, last.out, "head.weight", vocabulary, width));
    for (const saved of blocks.reverse()) dx = this.blockBackward(saved, dx);
    const embedding = this.gradient("embedding.weight");
    for (let row = 0; row < tokens.length; row++) {
      for (let c = 0; c < width; c++) embedding[tokens[row] * width + c] += dx[row * width + c];
    }
  }

  /** Backward through out = x W^T: adds dW = dout^T x, and returns dx = dout W. */
  product(dout, x, name, outputs, inputs) {
    const rows = x.length / inputs, dx = new Float32Array(x.length);
    dots(transpose(dout, rows, outputs), transpose(x, rows, inputs), this.gradient(name), outputs, inputs, rows, true);
    dots(dout, transpose(this.weight(name), outputs, inputs), dx, rows, inputs, outputs);
    return dx;
  }

  normBackward({ name, normal, scale }, dout) {
    const { width } = this.config, gain = this.weight(`${name}.weight`);
    const dgain = this.gradient(`${name}.weight`), dshift = this.gradient(`${name}.bias`);
    const dx = new Float32Array(dout.length);
    for (let row = 0; row < scale.length; row++) {
      const at = row * width;
      let mean = 0, product = 0;
      for (let c = 0; c < width; c++) {
        const d = dout[at + c] * gain[c];
        mean += d / width;
        product += (d * normal[at + c]) / width;
        dgain[c] += dout[at + c] * normal[at + c];
        dshift[c] += dout[at + c];
      }
      for (let c = 0; c < width; c++) dx[at + c] = scale[row] * (dout[at + c] * gain[c] - mean - normal[at + c] * product);
    }
    return dx;
  }

  blockBackward({ name, before, qkv, attended, shares, second, hidden, slope }, dout) {
    const { width } = this.config;
    addColumns(dout, this.gradient(`${name}feed_forward.2.bias`));
    const dhidden = this.product(dout, hidden, `${name}feed_forward.2.weight`, width, 4 * width);
    for (let i = 0; i < dhidden.length; i++) dhidden[i] *= slope[i];
    addColumns(dhidden, this.gradient(`${name}feed_forward.0.bias`));
    const dsecond = this.product(dhidden, second.out, `${name}feed_forward.0.weight`, 4 * width, width);
    const dmiddle = plus(dout, this.normBackward(second, dsecond));
    const dattended = this.product(dmiddle, attended, `${name}attention.output.weight`, width, width);
    const dqkv = this.attendBackward(qkv, shares, dattended);
    const dbefore = this.product(dqkv, before.out, `${name}attention.qkv.weight`, 3 * width, width);
    return plus(dmiddle, this.normBackward(before, dbefore));
  }

  attendBackward(qkv, shares, dattended) {
    const { width, heads } = this.config, { batch, length } = this.saved, size = width / heads, stride = 3 * width;
    const dqkv = new Float32Array(qkv.length), dshares = new Float64Array(length);
    for (let b = 0; b < batch; b++) for (let h = 0; h < heads; h++) for (let i = 0; i < length; i++) {
      const query = (b * length + i) * stride + h * size, out = (b * length + i) * width + h * size;
      const at = ((b * heads + h) * length + i) * length;
      let mean = 0;
      for (let j = 0; j <= i; j++) {
        const value = (b * length + j) * stride + 2 * width + h * size;
        dshares[j] = 0;
        for (let c = 0; c < size; c++) {
          dshares[j] += dattended[out + c] * qkv[value + c];
          dqkv[value + c] += shares[at + j] * dattended[out + c];
        }
        mean += shares[at + j] * dshares[j];
      }
      for (let j = 0; j <= i; j++) {
        const key = (b * length + j) * stride + width + h * size;
        const dlogit = (shares[at + j] * (dshares[j] - mean)) / Math.sqrt(size);
        for (let c = 0; c < size; c++) {
          dqkv[query + c] += dlogit * qkv[key + c];
          dqkv[key + c] += dlogit * qkv[query + c];
        }
      }
    }
    for (let row = 0; row < batch * length; row++) this.rotate(dqkv, row, row % length, -1);
    return dqkv;
  }
}

/** The attention weights of query i of one head, written to shares[at], ..., shares[at + i]. */
function softmaxRow(qkv, query, firstKey, stride, size, i, slope, shares, at) {
  let top = -Infinity, sum = 0;
  for (let j = 0; j <= i; j++) {
    let dot = 0;
    for (let c = 0; c < size; c++) dot += qkv[query + c] * qkv[firstKey + j * stride + c];
    shares[at + j] = dot / Math.sqrt(size) - slope * (i - j);
    top = Math.max(top, shares[at + j]);
  }
  for (let j = 0; j <= i; j++) sum += shares[at + j] = Math.exp(shares[at + j] - top);
  for (let j = 0; j <= i; j++) shares[at + j] /= sum;
}

/** GELU of x + bias, in place; its derivative goes to `slope`. */
function gelu(x, bias, slope) {
  for (let i = 0; i < x.length; i++) {
    const z = x[i] + bias[i % bias.length], share = normal(z);
    slope[i] = share + z * Math.exp(-0.5 * z * z) * 0.3989422804014327;
    x[i] = z * share;
  }
}

function addToRows(x, row) {
  for (let i = 0; i < x.length; i++) x[i] += row[i % row.length];
  return x;
}

function addColumns(x, sums) {
  for (let i = 0; i < x.length; i++) sums[i % sums.length] += x[i];
}

function plus(a, b) {
  for (let i = 0; i < a.length; i++) b[i] += a[i];
  return b;
}

/** Mean loss in bits of the logits against the next tokens, and the gradient of the mean loss in nats. */
export function crossEntropy(logits, targets, vocabulary) {
  const gradient = new Float32Array(logits.length), count = targets.length;
  let bits = 0;
  for (let row = 0; row < count; row++) {
    const at = row * vocabulary;
    let top = -Infinity, sum = 0;
    for (let v = 0; v < vocabulary; v++) top = Math.max(top, logits[at + v]);
    for (let v = 0; v < vocabulary; v++) sum += Math.exp(logits[at + v] - top);
    for (let v = 0; v < vocabulary; v++) gradient[at + v] = Math.exp(logits[at + v] - top) / sum / count;
    gradient[at + targets[row]] -= 1 / count;
    bits += (Math.log(sum) + top - logits[at + targets[row]]) / Math.LN2 / count;
  }
  return { bits, gradient };
}

/**
 * Train on batches { inputs, targets } of [batch, length] token ids; yields the loss of each step in bits.
 *
 * As `lab.train`: Muon for the matrices in the blocks, AdamW for the rest, weight decay 0.1, gradients clipped at norm 1,
 * a rate that rises and falls along a cosine.
 */
export function* train(model, batches, { batch, length, steps, rate }) {
  const { weights, gradients } = model;
  const first = new Float32Array(weights.length);  // means of the gradients
  const second = new Float32Array(weights.length);  // and of their squares
  for (let step = 1; step <= steps; step++) {
    const { inputs, targets } = batches.next().value;
    const { bits, gradient } = crossEntropy(model.forward(inputs, batch, length, true), targets, model.config.vocabulary);
    gradients.fill(0);
    model.backward(gradient);
    clip(gradients);
    const now = rate * schedule(step, steps);
    for (const [name, shape] of shapes(model.config)) {
      const range = model.parts.get(name);
      const [w, g, f, s] = [weights, gradients, first, second].map((numbers) => numbers.subarray(...range));
      const isMatrixOfBlock = name.startsWith("transformer.blocks") && shape.length === 2;
      if (!isMatrixOfBlock) {
        adamw(w, g, f, s, now, step);
        continue;
      }
      // The weights of queries, keys and values are three matrices, one below the other.
      const matrices = name.includes("qkv") ? 3 : 1;
      for (let n = 0; n < matrices; n++) {
        const [start, end] = [n, n + 1].map((m) => (m * w.length) / matrices);
        const rows = shape[0] / matrices;
        muon(w.subarray(start, end), g.subarray(start, end), f.subarray(start, end), rows, shape[1], 2 * now);
      }
    }
    yield bits;
  }
}

/** Scale the gradients to a norm of at most 1. */
function clip(gradients) {
  let squares = 0;
  for (let i = 0; i < gradients.length; i++) squares += gradients[i] ** 2;
  const factor = Math.min(1, 1 / (Math.sqrt(squares) + 1e-6));
  for (let i = 0; i < gradients.length; i++) gradients[i] *= factor;
}

/** A step of AdamW, which scales each number of the gradient by itself. */
function adamw(weights, gradients, first, second, rate, step) {
  const bias1 = 1 - 0.9 ** step, bias2 = Math.sqrt(1 - 0.95 ** step);
  for (let i = 0; i < weights.length; i++) {
    const g = gradients[i];
    first[i] += 0.1 * (g - first[i]);
    second[i] += 0.05 * (g * g - second[i]);
    weights[i] -= rate * (0.1 * weights[i] + first[i] / bias1 / (Math.sqrt(second[i]) / bias2 + 1e-8));
  }
}

/** A step of Muon, which goes equally far in every direction of a matrix: see alibi_viz/train/muon.py. */
function muon(weights, gradients, mean, rows, columns, rate) {
  const momentum = 0.8;
  const mixed = new Float32Array(weights.length);
  for (let i = 0; i < weights.length; i++) {
    mean[i] += (1 - momentum) * (gradients[i] - mean[i]);
    mixed[i] = gradients[i] + momentum * (mean[i] - gradients[i]);
  }
  const update = orthogonalized(mixed, rows, columns);
  const scale = 0.2 * Math.sqrt(Math.max(rows, columns));
  for (let i = 0; i < weights.length; i++) {
    weights[i] -= rate * (0.1 * weights[i] + scale * update[i]);
  }
}

/** A matrix [rows, columns] with the same singular vectors, and singular values of about 1 (Newton-Schulz iteration). */
function orthogonalized(matrix, rows, columns) {
  if (rows > columns) {
    const wide = orthogonalized(transpose(matrix, rows, columns), columns, rows);
    return transpose(wide, columns, rows);
  }
  let squares = 0;
  for (let i = 0; i < matrix.length; i++) squares += matrix[i] ** 2;
  const norm = Math.max(Math.sqrt(squares), 1e-7);
  let x = matrix.map((value) => value / norm);
  const gram = new Float32Array(rows * rows), square = new Float32Array(rows * rows);
  const change = new Float32Array(matrix.length);
  for (let n = 0; n < 4; n++) {
    dots(x, x, gram, rows, rows, columns);
    dots(gram, gram, square, rows, rows, rows);  // gram is its own transpose
    const factor = gram.map((value, i) => -4.775 * value + 2.0315 * square[i]);
    dots(factor, transpose(x, rows, columns), change, rows, columns, rows);
    x = x.map((value, i) => 3.4445 * value + change[i]);
  }
  return x;
}

function schedule(step, steps) {
  const warmUp = Math.max(1, Math.floor(steps / 20));
  if (step <= warmUp) return step / warmUp;
  return 0.1 + (0.9 * (1 + Math.cos((Math.PI * (step - warmUp)) / Math.max(1, steps - warmUp)))) / 2;
}

/** Endless batches of random sequences of the tokens. */
export function* randomBatches(tokens, batch, length, seed) {
  const next = random(seed);
  while (true) {
    const inputs = new Int32Array(batch * length), targets = new Int32Array(batch * length);
    for (let b = 0; b < batch; b++) {
      const start = Math.floor(next() * (tokens.length - length));
      inputs.set(tokens.subarray(start, start + length), b * length);
      targets.set(tokens.subarray(start + 1, start + length + 1), b * length);
    }
    yield { inputs, targets };
  }
}

/** Bits per token on sequences of `length`, always of the same first `targets` tokens after the first one. */
export function lossAt(model, tokens, length, targets) {
  const sequences = Math.floor(targets / length);
  let bits = 0;
  for (let w = 0; w < sequences; w++) {
    const logits = model.forward(tokens.subarray(w * length, (w + 1) * length), 1, length);
    bits += crossEntropy(logits, tokens.subarray(w * length + 1, (w + 1) * length + 1), model.config.vocabulary).bits;
  }
  return bits / sequences;
}

export const HELD = 8192;  // tokens that an endless text keeps in its caches

/** Writes token by token with a cache: `read` a token, and get the logits of the next one. */
export class Writer {
  /**
   * `scale` multiplies the slopes; `cut` is a head, counted from 1, whose output is dropped in every layer. With ALiBi, a
   * head doesn't read the far keys that together have less than the share `negligible` of its weight. So a text may be
   * endless. Caches then keep the last `HELD` tokens.
   */
  constructor(model, { scale = 1, cut = 0, negligible = 0 } = {}) {
    Object.assign(this, { model, scale, cut, negligible, position: 0 });
    const { layers, heads } = model.config;
    this.caches = Array.from({ length: layers }, () => new Float32Array(0));
    this.longest = this.caches.map(() => new Float32Array(heads));  // of all keys of a head
    this.first = 0;  // the oldest token in the caches
  }

  read(token) {
    const { model } = this, { layers, width, vocabulary } = model.config;
    if (this.negligible > 0 && this.position - this.first === 2 * HELD) this.forget();
    let x = model.weight("embedding.weight").slice(token * width, (token + 1) * width);
    model.addPosition(x, 0, this.position);
    for (let layer = 0; layer < layers; layer++) x = this.block(layer, x);
    this.position++;
    const logits = new Float32Array(vocabulary);
    dots(model.norm("transformer.norm", x).out, model.weight("head.weight"), logits, 1, vocabulary, width);
    return logits;
  }

  block(layer, x) {
    const { model, position } = this, { width, heads } = model.config, size = width / heads, stride = 3 * width;
    const name = `transformer.blocks.${layer}.`, product = (input, weight, outputs, out = new Float32Array(outputs)) => {
      dots(input, model.weight(name + weight), out, 1, outputs, input.length, true);
      return out;
    };
    const row = product(model.norm(`${name}norm_attention`, x).out, "attention.qkv.weight", stride);
    model.rotate(row, 0, position);
    const qkv = this.cached(layer, row), last = position - this.first;  // its row in the cache
    const shares = new Float32Array(last + 1), attended = new Float32Array(width);
    for (let h = 0; h < heads; h++) {
      const slope = this.scale * model.slopes[h], start = last - this.reach(layer, h, row, slope, last);
      if (h + 1 === this.cut) continue;
      const firstKey = start * stride + width + h * size;
      softmaxRow(qkv, last * stride + h * size, firstKey, stride, size, last - start, slope, shares, 0);
      for (let j = start; j <= last; j++) for (let c = 0; c < size; c++) {
        attended[h * size + c] += shares[j - start] * qkv[j * stride + 2 * width + h * size + c];
      }
    }
    const middle = product(attended, "attention.output.weight", width, x);
    const hidden = product(model.norm(`${name}norm_feed_forward`, middle).out, "feed_forward.0.weight", 4 * width);
    gelu(hidden, model.weight(`${name}feed_forward.0.bias`), new Float32Array(hidden.length));
    return product(hidden, "feed_forward.2.weight", width, addToRows(middle, model.weight(`${name}feed_forward.2.bias`)));
  }

  /**
   * How many tokens back a head has to read, at most to the first in the cache: what is further has together less than
   * the share `negligible` of the weight that the query's own key gets.
   *
   * No content is larger than the query times the longest key. So the weights from distance d on are together at most
   * exp(largest - slope * d) / (1 - exp(-slope)).
   */
  reach(layer, h, row, slope, most) {
    if (this.negligible === 0 || slope === 0) return most;
    const { width, heads } = this.model.config, size = width / heads;
    let query = 0, key = 0, own = 0;  // squares of lengths, and their product
    for (let c = h * size; c < (h + 1) * size; c++) {
      query += row[c] ** 2;
      key += row[width + c] ** 2;
      own += row[c] * row[width + c];
    }
    const longest = this.longest[layer];
    longest[h] = Math.max(longest[h], Math.sqrt(key));
    const spread = (Math.sqrt(query) * longest[h] - own) / Math.sqrt(size);
    const far = (spread - Math.log(this.negligible * (1 - Math.exp(-slope)))) / slope;
    return Math.min(most, Math.ceil(far));
  }

  /** The queries, keys and values of the tokens so far; the room for them doubles when it is full. */
  cached(layer, row) {
    let cache = this.caches[layer];
    const at = (this.position - this.first) * row.length;
    if (cache.length < at + row.length) {
      const larger = new Float32Array(2 * cache.length + 64 * row.length);
      larger.set(cache);
      cache = this.caches[layer] = larger;
    }
    cache.set(row, at);
    return cache;
  }

  /** Drop the older half of the caches. */
  forget() {
    const stride = 3 * this.model.config.width;
    for (const cache of this.caches) cache.copyWithin(0, HELD * stride, 2 * HELD * stride);
    this.first += HELD;
  }
}

/** A token drawn from the logits at this temperature; `next` is a random number generator. */
export function sample(logits, temperature, next) {
  const top = logits.reduce((a, b) => Math.max(a, b));
  const shares = Array.from(logits, (logit) => Math.exp((logit - top) / temperature));
  let rest = next() * shares.reduce((a, b) => a + b);
  const token = shares.findIndex((share) => (rest -= share) < 0);
  return token < 0 ? shares.length - 1 : token;
}
