// `versieve kernel FAMILY --judge --against F`: another engine's answers to the door's inputs,
// right and wrong in every way that has a name.
#include <catch2/catch.hpp>
#include <functional>
#include <random>

#include "tests/end_to_end/door_case.h"
#include "tests/support/errors.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;

namespace {

struct Judged {
  CommandResult command;
  nlohmann::json json;

  std::string verdict() const { return json.value("verdict", ""); }
  std::string sentence() const { return json.value("sentence", ""); }
};

Judged judged(const TensorSet& inputs, const TensorSet& answers, const std::string& arguments) {
  const TempFolder folder;
  write_safetensors(folder / "in", inputs);
  write_safetensors(folder / "answers", answers);
  Judged out;
  out.command =
      run_versieve("kernel " + arguments + " --judge --json --in " + (folder / "in").string() +
                   " --against " + (folder / "answers").string());
  INFO(out.command.err);
  out.json = nlohmann::json::parse(out.command.out);
  return out;
}

void check(const Judged& run, const char* verdict, int code) {
  INFO(run.command.out << run.command.err);
  CHECK(run.verdict() == verdict);
  CHECK(run.command.code == code);
}

void check_refused(const Judged& run, const char* part) {
  INFO(run.command.out);
  CHECK(run.command.code == 3);
  CHECK(is_one_sentence(run.command.err));
  CHECK(contains(run.command.err, part));
}

// The door's own answers as another engine's.
TensorSet answers_of(const TensorSet& inputs, const std::string& arguments) {
  const DoorRun run = run_door_on(inputs, arguments);
  INFO(run.command.err);
  REQUIRE(run.command.code == 0);
  TensorSet out;
  for (const auto& [name, view] : run.results.tensors()) {
    out.tensors[name] = {view.type, view.shape, {view.bytes.begin(), view.bytes.end()}};
  }
  return out;
}

template <class T>
std::vector<T> values(const TensorSet& set, const std::string& name) {
  const Tensor& t = set.tensors.at(name);
  return values_as<T>(TensorView{.type = t.type, .shape = t.shape, .bytes = t.bytes}, name);
}

TensorSet topk_inputs(const std::vector<float>& scores, std::int64_t rows, std::int64_t k) {
  TensorSet set;
  set.tensors["scores"] =
      tensor_of(scores, {rows, static_cast<std::int64_t>(scores.size()) / rows});
  set.metadata["k"] = std::to_string(k);
  return set;
}

template <class T>
TensorSet choice(const std::vector<T>& indices, std::int64_t rows) {
  TensorSet set;
  set.tensors["indices"] =
      tensor_of(indices, {rows, static_cast<std::int64_t>(indices.size()) / rows});
  return set;
}

// gamma = 2, V = 6, R draws with uniforms of their own.
TensorSet chain_inputs(std::int64_t draws, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> logit(0.0F, 1.5F);
  std::uniform_real_distribution<float> uniform(0.0F, 1.0F);
  std::vector<float> target(18), draft(12), uniforms(static_cast<std::size_t>(3 * draws));
  std::vector<std::int32_t> tokens;
  for (float& value : target) {
    value = logit(rng);
  }
  for (float& value : draft) {
    value = logit(rng);
  }
  for (float& value : uniforms) {
    value = std::min(uniform(rng), 0.999999F);
  }
  for (std::int64_t r = 0; r < 2 * draws; ++r) {
    tokens.push_back(static_cast<std::int32_t>(rng() % 6));
  }
  TensorSet set;
  set.tensors["target_logits"] = tensor_of(target, {3, 6});
  set.tensors["draft_logits"] = tensor_of(draft, {2, 6});
  set.tensors["draft_tokens"] = tensor_of(tokens, {draws, 2});
  set.tensors["uniforms"] = tensor_of(uniforms, {draws, 3});
  set.metadata["temperature"] = "0.8";
  return set;
}

// Root, two children, a grandchild of the first; the second draw's proposals differ.
TensorSet tree_inputs(std::int64_t draws, std::uint64_t seed, bool own_proposals) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> logit(0.0F, 1.0F);
  std::uniform_real_distribution<float> uniform(0.0F, 1.0F);
  std::vector<float> target(20), uniforms(static_cast<std::size_t>(4 * draws));
  for (float& value : target) {
    value = logit(rng);
  }
  for (float& value : uniforms) {
    value = std::min(uniform(rng), 0.999999F);
  }
  std::vector<std::int32_t> tokens;
  for (std::int64_t r = 0; r < draws; ++r) {
    const std::int32_t first = own_proposals ? static_cast<std::int32_t>(rng() % 4) : 1;
    tokens.insert(tokens.end(), {0, first, first + 1, 2});
  }
  TensorSet set;
  set.tensors["target_logits"] = tensor_of(target, {4, 5});
  set.tensors["parent"] = tensor_of(std::vector<std::int32_t>{-1, 0, 0, 1}, {4});
  set.tensors["tokens"] = tensor_of(tokens, {draws, 4});
  set.tensors["uniforms"] = tensor_of(uniforms, {draws, 4});
  set.metadata["temperature"] = "1";
  return set;
}

TensorSet without_uniforms(TensorSet inputs) {
  inputs.tensors.erase("uniforms");
  return inputs;
}

}  // namespace

TEST_CASE("a topk of the same sets is exact, in any order and integer type") {
  const TensorSet in = topk_inputs({1, 9, 3, 7, 5, 2, 8, 4, 6, 0}, 2, 3);
  check(judged(in, answers_of(in, "topk"), "topk"), "exact", 0);
  check(judged(in, choice<std::int64_t>({3, 1, 4, 3, 2, 1}, 2), "topk"), "exact", 0);
}

TEST_CASE("a topk that differs among equals is told from a wrong one") {
  const TensorSet in = topk_inputs({5, 5, 5, 9, 1, 7, 6, 5, 4, 3}, 2, 3);
  const Judged ties = judged(in, choice<std::int32_t>({3, 1, 2, 0, 1, 2}, 2), "topk");
  check(ties, "ties only", 0);
  CHECK(ties.json.at("rows_exact") == 1);
  CHECK(ties.json.at("rows_ties") == 1);

  const Judged wrong = judged(in, choice<std::int32_t>({3, 0, 1, 0, 2, 4}, 2), "topk");
  check(wrong, "wrong", 1);
  CHECK(wrong.json.at("first").at("row") == 1);
  CHECK(wrong.json.at("first").at("rank") == 2);
  CHECK(wrong.json.at("first").at("dropped") == nlohmann::json({{"index", 1}, {"value", 6.0}}));
  CHECK(wrong.json.at("first").at("taken") == nlohmann::json({{"index", 4}, {"value", 3.0}}));
  CHECK(contains(wrong.sentence(), "row 1: rank 2, index 1 of value 6, is dropped"));
}

TEST_CASE("NaN, the two zeros and rounding to bf16 rank as the door says") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const TensorSet in = topk_inputs({nan, -INFINITY, 0.0F, -0.0F, nan}, 1, 3);
  check(judged(in, choice<std::int32_t>({2, 3, 1}, 1), "topk"), "exact", 0);
  const Judged nan_first = judged(in, choice<std::int32_t>({0, 2, 3}, 1), "topk");
  check(nan_first, "wrong", 1);
  CHECK(contains(nan_first.sentence(), "rank 3, index 1 of value -inf"));
  const TensorSet zeros = topk_inputs({-1.0F, 0.0F, -0.0F}, 1, 1);
  check(judged(zeros, choice<std::int32_t>({2}, 1), "topk"), "ties only", 0);
  // Both are 1 in bf16.
  const TensorSet close = topk_inputs({1.0F, 1.0009765625F, 0.5F}, 1, 1);
  check(judged(close, choice<std::int32_t>({0}, 1), "topk"), "wrong", 1);
  check(judged(close, choice<std::int32_t>({0}, 1), "topk --dtype bf16"), "exact", 0);
  check(judged(close, choice<std::int32_t>({1}, 1), "topk --dtype bf16"), "ties only", 0);
}

TEST_CASE("a topk that is no choice is wrong by name") {
  const TensorSet in = topk_inputs({5, 4, 3, 2, 1}, 1, 3);
  const std::pair<std::vector<std::int32_t>, const char*> cases[] = {
      {{0, 1, 1}, "taken twice"}, {{0, 1, 5}, "outside"}, {{0, 1, -1}, "nothing in its place"}};
  for (const auto& [indices, part] : cases) {
    const Judged run = judged(in, choice(indices, 1), "topk");
    check(run, "wrong", 1);
    CHECK(contains(run.sentence(), part));
  }
  TensorSet values = choice<std::int32_t>({0, 1, 2}, 1);
  values.tensors["values"] = tensor_of(std::vector<float>{5, 4, 2.5F}, {1, 3});
  const Judged run = judged(in, values, "topk");
  check(run, "wrong", 1);
  CHECK(contains(run.sentence(), "value 2.5 stands beside index 2, whose score is 3"));
  // More wanted than there is: all, then -1.
  const TensorSet few = topk_inputs({5, 4}, 1, 4);
  check(judged(few, answers_of(few, "topk"), "topk"), "exact", 0);
}

TEST_CASE("the door's own nsa_verify is exact in every variant and dtype") {
  const TensorSet in = nsa_tensors(many_blocks_case(3));
  for (const char* arguments : {"nsa_verify", "nsa_verify --variant refresh",
                                "nsa_verify --variant exact", "nsa_verify --variant approx"}) {
    CAPTURE(arguments);
    check(judged(in, answers_of(in, arguments), arguments), "exact", 0);
    const std::string bf16 = std::string(arguments) + " --dtype bf16";
    const Judged run = judged(in, answers_of(in, bf16), bf16);
    INFO(run.command.out);
    CHECK(run.command.code == 0);
  }
  TensorSet reuse = in;
  reuse.tensors["indices_in"] = answers_of(in, "nsa_verify").tensors.at("indices");
  const std::string arguments = "nsa_verify --variant reuse";
  check(judged(reuse, answers_of(reuse, arguments), arguments), "exact", 0);
}

TEST_CASE("a wrong block and a wrong attention are told apart") {
  const TensorSet in = nsa_tensors(many_blocks_case(3));
  const TensorSet right = answers_of(in, "nsa_verify");
  // Row 2, KV head 1: the first block that is not forced gives way to the least important one.
  const Shape shape = right.tensors.at("indices").shape;
  std::vector<std::int32_t> indices = values<std::int32_t>(right, "indices");
  const std::vector<float> importance = values<float>(right, "importance");
  const std::int64_t count = shape[2], blocks = right.tensors.at("importance").shape[2];
  const std::int64_t at = (2 * shape[1] + 1) * count;
  const float* weights = importance.data() + (2 * shape[1] + 1) * blocks;
  std::int32_t least = -1;
  for (std::int32_t b = 1; b + 3 < blocks; ++b) {
    const bool is_taken = std::find(indices.begin() + at, indices.begin() + at + count, b) !=
                          indices.begin() + at + count;
    least = !is_taken && (least < 0 || weights[b] < weights[least]) ? b : least;
  }
  REQUIRE(least > 0);
  const std::int32_t dropped = indices[static_cast<std::size_t>(at + 1)];
  indices[static_cast<std::size_t>(at + 1)] = least;
  TensorSet answers = choice(indices, 1);
  answers.tensors["indices"] = tensor_of(indices, shape);
  const Judged blocks_alone = judged(in, answers, "nsa_verify");
  check(blocks_alone, "wrong", 1);
  const nlohmann::json first = blocks_alone.json.at("choices").at("first");
  CHECK(first.at("row") == 2);
  CHECK(first.at("kv_head") == 1);
  CHECK(first.at("dropped").at("block") == dropped);
  CHECK(first.at("taken").at("block") == least);
  CHECK(first.at("rank").get<int>() >= 1);

  // Attention over those very blocks is right, over others it is not.
  TensorSet theirs = in;
  std::vector<std::int32_t> sorted = indices;
  std::sort(sorted.begin() + at, sorted.begin() + at + count);
  theirs.tensors["indices_in"] = tensor_of(sorted, shape);
  answers.tensors["out"] = answers_of(theirs, "nsa_verify --variant reuse").tensors.at("out");
  const Judged attended = judged(in, answers, "nsa_verify");
  check(attended, "wrong", 1);
  CHECK(attended.json.at("out").at("right") == true);
  CHECK(attended.json.at("out").at("with_their_blocks") == true);

  TensorSet off = right;
  std::vector<float> out = values<float>(right, "out");
  out[5] += 0.5F;
  off.tensors["out"] = tensor_of(out, right.tensors.at("out").shape);
  const Judged wrong = judged(in, off, "nsa_verify");
  check(wrong, "wrong", 1);
  CHECK(wrong.json.at("choices").at("wrong") == 0);
  CHECK(wrong.json.at("out").at("worst_row") == 0);
}

TEST_CASE("blocks that are forced, missing, doubled or of the future are wrong by name") {
  const TensorSet in = nsa_tensors(many_blocks_case(3));
  const TensorSet right = answers_of(in, "nsa_verify");
  const std::pair<std::int32_t, const char*> cases[] = {
      {-1, "blocks where"}, {1000, "and the row's own is"}, {0, "taken twice"}};
  for (const auto& [block, part] : cases) {
    std::vector<std::int32_t> indices = values<std::int32_t>(right, "indices");
    indices[1] = block;
    TensorSet answers;
    answers.tensors["indices"] = tensor_of(indices, right.tensors.at("indices").shape);
    const Judged run = judged(in, answers, "nsa_verify");
    check(run, "wrong", 1);
    CHECK(contains(run.sentence(), part));
  }
}

TEST_CASE("draws of the right law fit, those of the very uniforms are exact") {
  for (const char* variant : {"baseline", "exact"}) {
    const std::string arguments = std::string("spec_sample --variant ") + variant;
    const TensorSet in = chain_inputs(4000, 7);
    const TensorSet draws = answers_of(in, arguments);
    check(judged(in, draws, arguments), "exact", 0);
    check(judged(without_uniforms(in), draws, arguments), "fits", 0);
  }
  for (const bool own : {false, true}) {
    const TensorSet in = tree_inputs(4000, 11, own);
    const TensorSet draws = answers_of(in, "tree_sample");
    check(judged(in, draws, "tree_sample"), "exact", 0);
    check(judged(without_uniforms(in), draws, "tree_sample"), "fits", 0);
  }
  TensorSet sigmoid = chain_inputs(4000, 9);
  sigmoid.metadata["alpha"] = "-4";
  sigmoid.metadata["beta"] = "4";
  const TensorSet draws = answers_of(sigmoid, "spec_sample --variant sigmoid");
  check(judged(without_uniforms(sigmoid), draws, "spec_sample --variant sigmoid"), "fits", 0);
  // The same draws are not those of the exact rule.
  check(judged(without_uniforms(sigmoid), draws, "spec_sample"), "wrong", 1);
}

TEST_CASE("right samplers are not called wrong, whatever the seed") {
  int wrong = 0;
  for (std::uint64_t seed = 100; seed < 140; ++seed) {
    const TensorSet in = chain_inputs(500, seed);
    const TensorSet tree = tree_inputs(500, seed, true);
    wrong += judged(without_uniforms(in), answers_of(in, "spec_sample"), "spec_sample").verdict() ==
                     "fits"
                 ? 0
                 : 1;
    wrong +=
        judged(without_uniforms(tree), answers_of(tree, "tree_sample"), "tree_sample").verdict() ==
                "fits"
            ? 0
            : 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("a tempered, a greedy and a two-ratio sampler are found wrong") {
  const TensorSet in = chain_inputs(4000, 7);
  TensorSet cold = in;
  cold.metadata["temperature"] = "0.6";
  check(judged(without_uniforms(in), answers_of(cold, "spec_sample"), "spec_sample"), "wrong", 1);
  TensorSet tree = tree_inputs(4000, 11, false);
  TensorSet hot = tree;
  hot.metadata["temperature"] = "1.2";
  check(judged(without_uniforms(tree), answers_of(hot, "tree_sample"), "tree_sample"), "wrong", 1);
  // The draw from the target's row after a rejection, in place of the residual.
  TensorSet draws = answers_of(in, "spec_sample");
  std::vector<std::int32_t> tokens = values<std::int32_t>(draws, "tokens");
  std::vector<std::int32_t> accepted = values<std::int32_t>(draws, "accepted");
  for (std::size_t r = 0; r < accepted.size(); ++r) {
    tokens[3 * r + static_cast<std::size_t>(accepted[r])] = static_cast<std::int32_t>(r % 6);
  }
  draws.tensors["tokens"] = tensor_of(tokens, draws.tensors.at("tokens").shape);
  const Judged impossible = judged(without_uniforms(in), draws, "spec_sample");
  check(impossible, "wrong", 1);
  CHECK(contains(impossible.sentence(), "where its probability is 0"));
}

TEST_CASE("draws are judged by the law that is left of the rows") {
  for (const char* cut : {"top_k", "top_p", "min_p"}) {
    const std::string value = std::string(cut) == "top_k" ? "3" : "0.5";
    CAPTURE(cut);
    TensorSet chain = chain_inputs(4000, 7), tree = tree_inputs(4000, 11, true);
    const TensorSet uncut = answers_of(chain, "spec_sample");
    const TensorSet uncut_tree = answers_of(tree, "tree_sample");
    chain.metadata[cut] = value;
    tree.metadata[cut] = value;
    const TensorSet draws = answers_of(chain, "spec_sample");
    check(judged(chain, draws, "spec_sample"), "exact", 0);
    check(judged(without_uniforms(chain), uncut, "spec_sample"), "wrong", 1);
    check(judged(without_uniforms(tree), answers_of(tree, "tree_sample"), "tree_sample"), "fits",
          0);
    check(judged(without_uniforms(tree), uncut_tree, "tree_sample"), "wrong", 1);
  }
}

TEST_CASE("greedy draws are certain, and few draws decide nothing") {
  TensorSet in = chain_inputs(20, 3);
  in.metadata["temperature"] = "0";
  check(judged(in, answers_of(in, "spec_sample"), "spec_sample"), "exact", 0);
  const Judged few = judged(without_uniforms(chain_inputs(4, 3)),
                            answers_of(chain_inputs(4, 3), "spec_sample"), "spec_sample");
  check(few, "undecided", 1);
  CHECK(contains(few.sentence(), "too few"));
  TensorSet one = tree_inputs(1, 5, false);
  one.metadata["temperature"] = "0";
  const TensorSet answer = answers_of(one, "tree_sample");
  check(judged(without_uniforms(one), answer, "tree_sample"), "exact", 0);
  // One draw without a leading R.
  TensorSet single = without_uniforms(one);
  single.tensors["tokens"] = tensor_of(values<std::int32_t>(one, "tokens"), {4});
  TensorSet alone;
  std::vector<std::int32_t> emitted = values<std::int32_t>(answer, "tokens");
  std::erase(emitted, -1);
  alone.tensors["tokens"] = tensor_of(emitted, {static_cast<std::int64_t>(emitted.size())});
  check(judged(single, alone, "tree_sample"), "exact", 0);
  emitted.back() = (emitted.back() + 1) % 5;
  alone.tensors["tokens"] = tensor_of(emitted, {static_cast<std::int64_t>(emitted.size())});
  check(judged(single, alone, "tree_sample"), "wrong", 1);
}

TEST_CASE("what is no answer to the inputs is refused in a sentence") {
  const TensorSet in = topk_inputs({5, 4, 3, 2, 1}, 1, 3);
  check_refused(judged(in, TensorSet{}, "topk"), "'indices' is missing");
  check_refused(judged(in, choice<std::int32_t>({0, 1}, 1), "topk"), "where k is 3");
  check_refused(judged(in, choice<std::int32_t>({0, 1, 2, 0, 1, 2}, 2), "topk"), "where R is 1");
  TensorSet floats;
  floats.tensors["indices"] = tensor_of(std::vector<float>{0, 1, 2}, {1, 3});
  check_refused(judged(in, floats, "topk"), "F32");
  TensorSet wide = choice<std::int64_t>({0, 1, std::int64_t{1} << 40}, 1);
  check_refused(judged(in, wide, "topk"), "indices");

  const TensorSet nsa = nsa_tensors(small_nsa_case(1));
  check_refused(judged(nsa, TensorSet{}, "nsa_verify"), "neither indices nor out");
  TensorSet nan = answers_of(nsa, "nsa_verify");
  std::vector<float> out = values<float>(nan, "out");
  out[0] = std::numeric_limits<float>::quiet_NaN();
  nan.tensors["out"] = tensor_of(out, nan.tensors.at("out").shape);
  check_refused(judged(nsa, nan, "nsa_verify"), "not finite");

  const TensorSet chain = without_uniforms(chain_inputs(10, 1));
  TensorSet draws = answers_of(chain_inputs(10, 1), "spec_sample");
  std::vector<std::int32_t> accepted = values<std::int32_t>(draws, "accepted");
  accepted[0] += 1;
  draws.tensors["accepted"] = tensor_of(accepted, {10});
  check_refused(judged(chain, draws, "spec_sample"), "accepted says");
  check_refused(judged(chain, answers_of(chain_inputs(9, 1), "spec_sample"), "spec_sample"),
                "holds 9 draws, and the inputs 10");
  TensorSet gap;
  gap.tensors["tokens"] = tensor_of(std::vector<std::int32_t>(30, -1), {10, 3});
  const Judged empty = judged(chain, gap, "spec_sample");
  check(empty, "wrong", 1);
  CHECK(contains(empty.sentence(), "emits no token"));
}

TEST_CASE("what cannot be judged is a usage error") {
  const TempFolder folder;
  write_safetensors(folder / "in", topk_inputs({5, 4, 3}, 1, 1));
  const std::string in = " --in " + (folder / "in").string();
  const std::string against = " --against " + (folder / "in").string();
  for (const std::string& line :
       {"kernel block_keys --judge" + in + against, "kernel topk --judge" + in,
        "kernel topk" + in + against, "kernel topk --judge --backend cuda" + in + against,
        "kernel topk --judge" + in + against + " --out " + (folder / "out").string()}) {
    const CommandResult run = run_versieve(line);
    INFO(line << ": " << run.err);
    CHECK(run.code == 2);
    CHECK(is_one_sentence(run.err));
  }
  CHECK(run_versieve("kernel topk --judge" + in + " --against /nowhere").code == 3);
}
