// Programs: what a loss becomes when it is compiled and differentiated.
import { describe, expect, it } from "vitest";
import { compile, compileCheck, freeze } from "../../src/loss/compile.ts";
import { defineLoss, type Loss, perSample, perToken } from "../../src/loss/define.ts";
import { printProgram } from "../../src/loss/print.ts";

const print = (loss: Loss) => printProgram(loss.name, loss.program);
const opsOf = ({ program }: Loss) => program.nodes.map(({ op }) => op);

describe("the joint program", () => {
  it("of regularised SFT needs one pass over the tokens", () => {
    const loss = defineLoss({
      name: "regularized_sft",
      inputs: { reference: perToken() },
      params: { beta: 0.1 },
      loss: ({ logprobs, reference, beta }) => {
        const nll = logprobs.neg().mean("sample");
        const drift = logprobs.sub(reference).square().mean("sample");
        return { loss: nll.add(drift.mul(beta)).mean(), metrics: { nll: nll.mean() } };
      },
    });
    expect(print(loss as unknown as Loss)).toMatchInlineSnapshot(`
      "loss regularized_sft(logprobs: token, weights: token, reference: token, beta: batch)
        a: token = neg logprobs
        b: sample = sum logprobs
        c: sample = neg b
        d: sample = count a
        e: sample = maximum d 1
        f: sample = div c e
        g: token = sub logprobs reference
        h: token = square g
        i: sample = sum h
        j: sample = div i e
        k: sample = mul j beta@sample
        l: sample = add f k
        m: batch = sum l
        n: batch = count l
        o: batch = maximum n 1
        p: batch = div m o
        q: batch = sum f
        r: batch = div q o
        return p, nll: r
      gradient of logprobs
        s: batch = div 1 o
        t: batch = mul s beta
        u: sample = div t@sample e
        v: sample = mul u 2
        w: token = scale v@token g
        x: sample = div s@sample e
        y: sample = neg x
        z: token = add w y@token
        return z"
    `);
  });

  it("of a preference loss comes back through the pairs", () => {
    const loss = defineLoss({
      name: "preference",
      loss: ({ logprobs }) => {
        const sums = logprobs.sum("sample");
        return sums.member(0).sub(sums.member(1)).mul(0.1).logSigmoid().neg().mean();
      },
    });
    expect(print(loss as unknown as Loss)).toMatchInlineSnapshot(`
      "loss preference(logprobs: token, weights: token)
        a: sample = sum logprobs
        b: group = members 0
        c: group = gather a b
        d: group = members 1
        e: group = gather a d
        f: group = sub c e
        g: group = mul f 0.1
        h: group = logSigmoid g
        i: group = neg h
        j: batch = sum h
        k: batch = neg j
        l: batch = count i
        m: batch = maximum l 1
        n: batch = div k m
        return n
      gradient of logprobs
        o: batch = div 1 m
        p: batch = neg o
        q: group = mul f -0.1
        r: group = sigmoid q
        s: group = scale p@group r
        t: group = mul s 0.1
        u: group = mul s -0.1
        v: sample = scatter u d
        w: sample = scatter t b
        x: sample = add v w
        return x@token"
    `);
  });

  it("of a clipped ratio selects and annihilates", () => {
    const loss = defineLoss({
      name: "clipped",
      inputs: { old: perToken(), advantages: perSample() },
      params: { clip: 0.2 },
      loss: ({ logprobs, old, advantages, clip }) => {
        const ratio = logprobs.sub(old).exp();
        const clipped = ratio.clamp(clip.neg().add(1), clip.add(1));
        return ratio.mul(advantages).minimum(clipped.mul(advantages)).neg().mean();
      },
    });
    expect(print(loss as unknown as Loss)).toMatchInlineSnapshot(`
      "loss clipped(logprobs: token, weights: token, old: token, advantages: sample, clip: batch)
        a: token = sub logprobs old
        b: token = exp a
        c: batch = sub 1 clip
        d: batch = add clip 1
        e: token = clamp b c@token d@token
        f: token = mul b advantages@token
        g: token = mul e advantages@token
        h: token = minimum f g
        i: token = neg h
        j: batch = sum h
        k: batch = neg j
        l: batch = count i
        m: batch = maximum l 1
        n: batch = div k m
        return n
      gradient of logprobs
        o: batch = div 1 m
        p: batch = neg o
        q: token mask = lt f g
        r: token mask = eq f g
        s: batch = mul o 0.5
        t: batch = neg s
        u: token = where r t@token 0
        v: token = where q p@token u
        w: token mask = lt g f
        x: token = where w p@token u
        y: token = mul x advantages@token
        z: token = mul v advantages@token
        aa: token mask = eq e b
        ab: batch mask = le c d
        ac: token mask = and aa ab@token
        ad: token = where ac y 0
        ae: token = add z ad
        af: token = scale ae b
        return af"
    `);
  });

  it("of a softmax over a group is made of primitive ops", () => {
    const loss = defineLoss({
      name: "listwise",
      inputs: { target: perSample() },
      loss: ({ logprobs, target }) => logprobs.sum("sample").logSoftmax("group").mul(target).sum().neg(),
    });
    expect(print(loss as unknown as Loss)).toMatchInlineSnapshot(`
      "loss listwise(logprobs: token, weights: token, target: sample)
        a: sample = sum logprobs
        b: group = max a
        c: group = detach b
        d: group mask = isFinite c
        e: group = where d c 0
        f: sample = sub a e@sample
        g: sample = exp f
        h: group = sum g
        i: group = log h
        j: group = add i e
        k: sample = sub a j@sample
        l: sample = mul k target
        m: batch = sum l
        n: batch = neg m
        return n
      gradient of logprobs
        o: group = sum target
        p: group = unscale o h
        q: sample = scale p@sample g
        r: sample = sub q target
        return r@token"
    `);
  });
});

describe("simplification", () => {
  it("folds constants and drops factors of 1", () => {
    const loss = defineLoss({ loss: ({ logprobs }) => logprobs.mul(1).div(1).pow(1).neg().neg().sum() });
    expect(
      opsOf(loss as unknown as Loss)
        .filter((op) => op !== "input")
        .sort(),
    ).toEqual(["constant", "spread", "sum"]);
  });

  it("computes on the coarsest axis that will do", () => {
    const loss = defineLoss({
      inputs: { advantages: perSample() },
      params: { beta: 2 },
      loss: ({ logprobs, advantages, beta }) =>
        logprobs.mul(logprobs.mul(0).sum("batch").add(advantages).mul(beta)).sum(),
    });
    const perToken = loss.program.nodes.filter(({ op, axis }) => axis === "token" && op !== "spread");
    expect(perToken.map(({ op }) => op)).toEqual(["input", "input", "mul"]);
  });

  it("counts an axis once", () => {
    const loss = defineLoss({
      loss: ({ logprobs }) => logprobs.mean("sample").add(logprobs.exp().mean("sample")).mean(),
    });
    expect(opsOf(loss as unknown as Loss).filter((op) => op === "count")).toHaveLength(2);
  });

  it("multiplies plainly by what is always finite", () => {
    const loss = defineLoss({
      inputs: { advantages: perSample() },
      loss: ({ logprobs, advantages }) => logprobs.mul(advantages).mean("sample").sum(),
    });
    expect(opsOf(loss as unknown as Loss)).not.toContain("scale");
    const unbounded = defineLoss({ loss: ({ logprobs }) => logprobs.exp().sum() });
    expect(unbounded.program.gradient).toBe(unbounded.program.nodes.findIndex(({ op }) => op === "exp"));
  });

  it("keeps the lines of the loss, also of its gradient", () => {
    const { program } = defineLoss({ loss: ({ logprobs }) => logprobs.square().exp().mean("sample").sum() });
    for (const { op, source } of program.nodes) {
      if (op !== "input" && op !== "constant") expect(source).toMatch(/program\.test\.ts:\d+:\d+$/);
    }
  });
});

describe("programs for checking", () => {
  const loss = defineLoss({
    inputs: { reference: perToken(), unused: perSample() },
    loss: ({ logprobs, reference }) => logprobs.sub(reference).exp().detach().mul(logprobs).sum(),
  });

  it("have the gradients of all inputs and the detached values as outputs", () => {
    const { outputs } = compileCheck(loss.graph);
    expect(outputs.map(({ name }) => name)).toEqual(["weights", "reference", "unused", "detach"]);
  });

  it("take detached values as inputs once these are frozen", () => {
    const frozen = compile(freeze(loss.graph));
    expect(frozen.inputs.map(({ name }) => name)).toEqual([
      "logprobs",
      "weights",
      "reference",
      "unused",
      "detach 0",
    ]);
    expect(frozen.nodes.map(({ op }) => op)).not.toContain("exp");
  });
});

it("tracing and compiling a loss in use takes less than 5 ms", () => {
  const grpo = () =>
    defineLoss({
      inputs: { old: perToken(), reference: perToken(), advantages: perSample() },
      params: { clip: 0.2, beta: 0.04 },
      loss: ({ logprobs, old, reference, advantages, clip, beta }) => {
        const ratio = logprobs.sub(old).exp();
        const clipped = ratio.clamp(clip.neg().add(1), clip.add(1));
        const policy = ratio.mul(advantages).minimum(clipped.mul(advantages)).neg();
        const difference = reference.sub(logprobs);
        const kl = difference.exp().sub(difference).sub(1);
        return policy.add(kl.mul(beta)).mean("sample").mean();
      },
    }).program;
  const times = Array.from({ length: 9 }, () => {
    const start = performance.now();
    grpo();
    return performance.now() - start;
  });
  // The fastest: what else the machine does is not measured here.
  expect(Math.min(...times)).toBeLessThan(5);
});
