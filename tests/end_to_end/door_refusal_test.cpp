// Every rule of the door, broken once: the exit code, one sentence, and no file left behind.
#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <tuple>

#include "tests/end_to_end/door_case.h"
#include "tests/support/errors.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;

namespace {

struct Broken {
  const char* what;
  std::function<void(TensorSet&)> change;
  const char* sentence;  // a part of it
};

void check_refused(const DoorRun& run, int code, const char* sentence) {
  INFO(run.command.err);
  CHECK(run.command.code == code);
  CHECK(is_one_sentence(run.command.err));
  CHECK(contains(run.command.err, sentence));
  CHECK(!run.wrote);
  CHECK(run.beside == 0);
}

void check_all(const TensorSet& valid, const std::string& arguments,
               const std::vector<Broken>& cases) {
  REQUIRE(run_door_on(valid, arguments).command.code == 0);
  for (const Broken& broken : cases) {
    CAPTURE(broken.what);
    TensorSet set = valid;
    broken.change(set);
    check_refused(run_door_on(set, arguments), 3, broken.sentence);
  }
}

// Replaces one element of a tensor.
template <class T>
std::function<void(TensorSet&)> poke(const char* name, std::size_t index, T value) {
  return [=](TensorSet& set) {
    std::memcpy(set.tensors.at(name).bytes.data() + index * sizeof(T), &value, sizeof(T));
  };
}
std::function<void(TensorSet&)> drop(const char* name) {
  return [=](TensorSet& set) { set.tensors.erase(name); };
}
std::function<void(TensorSet&)> drop_key(const char* key) {
  return [=](TensorSet& set) { set.metadata.erase(key); };
}
std::function<void(TensorSet&)> key(const char* name, const char* value) {
  return [=](TensorSet& set) { set.metadata[name] = value; };
}
std::function<void(TensorSet&)> reshape(const char* name, Shape shape) {
  return [=](TensorSet& set) { set.tensors.at(name).shape = shape; };
}
std::function<void(TensorSet&)> as_f32_bits(const char* name) {
  return [=](TensorSet& set) { set.tensors.at(name).type = StorageType::kF32; };
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("nsa_verify refuses every broken rule with exit 3") {
  const TensorSet valid = nsa_tensors(small_nsa_case(1));
  REQUIRE(valid.tensors.count("cmp_tree_owner") == 1);
  std::vector<Broken> cases;
  for (const char* name : {"q", "k", "v", "k_cmp", "v_cmp", "k_tree", "v_tree", "parent",
                           "position", "gates", "k_cmp_tree", "v_cmp_tree", "cmp_tree_owner"}) {
    cases.push_back({name, drop(name), "is missing"});
  }
  for (const char* name : {"cmp_block", "cmp_stride", "sel_block", "sel_count", "init_blocks",
                           "local_blocks", "window", "group_size"}) {
    cases.push_back({name, drop_key(name), "is missing"});
    for (const char* wrong : {"", "x", "16.0", " 16", "16 ", "0x10", "1e2", "-1", "+4", "nan",
                              "99999999999999999999", "4294967296"}) {
      cases.push_back({wrong, key(name, wrong), "must be an integer"});
    }
  }
  for (const char* name :
       {"q", "k", "v", "k_cmp", "v_cmp", "k_tree", "v_tree", "gates", "k_cmp_tree", "v_cmp_tree"}) {
    cases.push_back({name, poke(name, 0, kNan), "not finite"});
    cases.push_back({name, poke(name, 1, -kInfinity), "not finite"});
    cases.push_back({name, poke(name, 2, 1e300), "not finite"});  // overflows f32
  }
  const std::vector<Broken> rules = {
      {"rank", reshape("q", {6, 32}), "has the shape [6, 32], but [N,H,d]"},
      {"v unlike k", reshape("v", {40, 1, 16}), "[L,G,d]"},
      {"v_cmp unlike k_cmp", reshape("v_cmp", {18, 1, 8}), "[Lc,G,d]"},
      {"gates of two", reshape("gates", {6, 2, 6}), "[N,H,3]"},
      {"integers as floats", as_f32_bits("parent"), "I32 is needed"},
      {"two roots", poke<std::int32_t>("parent", 1, -1), "parent[1]"},
      {"a parent of itself", poke<std::int32_t>("parent", 3, 3), "parent[3]"},
      {"a child before its parent", poke<std::int32_t>("parent", 2, 4), "parent[2]"},
      {"row 0 has a parent", poke<std::int32_t>("parent", 0, 0), "root"},
      {"root not at L", poke<std::int32_t>("position", 0, 41), "root"},
      {"position is not L + depth", poke<std::int32_t>("position", 4, 43), "position[4]"},
      {"wrong owner", poke<std::int32_t>("cmp_tree_owner", 0, 2), "cmp_tree_owner"},
      {"owner out of range", poke<std::int32_t>("cmp_tree_owner", 0, 6), "cmp_tree_owner"},
      {"stride does not divide l", key("cmp_stride", "3"), "cmp_stride must divide"},
      {"stride does not divide B", key("sel_block", "18"), "cmp_stride must divide"},
      {"too few selected", key("sel_count", "2"), "sel_count"},
      {"Lc does not follow from L", key("cmp_stride", "8"), "k_cmp"},
      {"G does not divide H",
       [](TensorSet& set) {
         const std::vector<double> none;
         set.tensors["q"] = tensor_of(std::vector<double>(6 * 3 * 8), {6, 3, 8});
         set.tensors["gates"] = tensor_of(std::vector<double>(6 * 3 * 3), {6, 3, 3});
       },
       "multiple of the number of KV heads"}};
  cases.insert(cases.end(), rules.begin(), rules.end());
  check_all(valid, "nsa_verify", cases);
}

TEST_CASE("queries and keys whose scores leave the dtype's range are refused, not answered by 0") {
  const TensorSet valid = nsa_tensors(small_nsa_case(1));
  for (const char* name : {"k", "k_cmp", "k_tree", "k_cmp_tree"}) {
    TensorSet set = valid;
    poke("q", 0, 1e25)(set);
    poke(name, 0, -1e25)(set);
    const std::string sentence = std::string("'q' and '") + name + "' are so large";
    check_refused(run_door_on(set, "nsa_verify"), 3, sentence.c_str());
    check_refused(run_door_on(set, "nsa_verify --dtype bf16"), 3, sentence.c_str());
    CHECK(run_door_on(set, "nsa_verify --dtype f64").command.code == 0);
  }
}

TEST_CASE("the grouped variants of nsa_verify keep the rules of the others") {
  const TensorSet valid = nsa_tensors(small_nsa_case(1));
  for (const char* variant : {"refresh", "exact", "approx"}) {
    CAPTURE(variant);
    check_all(valid, std::string("nsa_verify --variant ") + variant,
              {{"no group size", drop_key("group_size"), "'group_size' is missing"},
               {"groups of none", key("group_size", "0"), "must be an integer"},
               {"no finite q", poke("q", 0, kNan), "not finite"},
               {"a child before its parent", poke<std::int32_t>("parent", 2, 4), "parent[2]"}});
  }
}

TEST_CASE("nsa_verify reuse refuses wrong index rows") {
  TensorSet valid = nsa_tensors(small_nsa_case(1));
  std::vector<std::int32_t> rows;
  for (int row = 0; row < 12; ++row) {
    rows.insert(rows.end(), {0, 1, 2, -1});
  }
  valid.tensors["indices_in"] = tensor_of(rows, {6, 2, 4});
  check_all(valid, "nsa_verify --variant reuse",
            {{"missing", drop("indices_in"), "'indices_in' is missing"},
             {"repeated", poke<std::int32_t>("indices_in", 1, 0), "indices_in must be ascending"},
             {"falling", poke<std::int32_t>("indices_in", 0, 7), "indices_in must be ascending"},
             {"gap", poke<std::int32_t>("indices_in", 1, -1), "indices_in must be ascending"},
             {"below -1", poke<std::int32_t>("indices_in", 3, -2), "indices_in must be ascending"},
             {"count is not n", key("sel_count", "5"), "[N,G,n]"}});
}

TEST_CASE("topk refuses every broken rule with exit 3") {
  check_all(topk_tensors(), "topk",
            {{"no scores", drop("scores"), "'scores' is missing"},
             {"no k", drop_key("k"), "'k' is missing"},
             {"k of 0", key("k", "0"), "must be an integer"},
             {"negative k", key("k", "-3"), "must be an integer"},
             {"k is no number", key("k", "3x"), "must be an integer"},
             {"absurd k", key("k", "9000000000000"), "must be an integer"},
             {"rank", reshape("scores", {10}), "[R,Lp]"},
             {"no rows",
              [](TensorSet& set) {
                set.tensors["scores"] = tensor_of(std::vector<float>{}, {0, 5});
              },
              "R must be at least 1"},
             {"no scores in a row",
              [](TensorSet& set) {
                set.tensors["scores"] = tensor_of(std::vector<float>{}, {2, 0});
              },
              "Lp must be at least 1"},
             {"hint of another k",
              [](TensorSet& set) {
                set.tensors["hint"] = tensor_of(std::vector<std::int32_t>(4), {2, 2});
              },
              "[R,k]"},
             {"hint of floats",
              [](TensorSet& set) {
                set.tensors["hint"] = tensor_of(std::vector<float>(6), {2, 3});
              },
              "I32 is needed"}});
}

TEST_CASE("spec_sample refuses every broken rule with exit 3") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  check_all(
      spec_sample_tensors(), "spec_sample",
      {{"no target", drop("target_logits"), "is missing"},
       {"no draft", drop("draft_logits"), "is missing"},
       {"no tokens", drop("draft_tokens"), "is missing"},
       {"no uniforms", drop("uniforms"), "is missing"},
       {"no temperature", drop_key("temperature"), "is missing"},
       {"negative temperature", key("temperature", "-0.5"), "must not be negative"},
       {"temperature nan", key("temperature", "nan"), "decimal number"},
       {"temperature inf", key("temperature", "inf"), "decimal number"},
       {"temperature empty", key("temperature", ""), "decimal number"},
       {"temperature hex", key("temperature", "0x1"), "decimal number"},
       {"temperature with a tail", key("temperature", "1.0f"), "decimal number"},
       {"temperature beyond double", key("temperature", "1e999"), "decimal number"},
       {"NaN target logit", poke("target_logits", 11, nan), "NaN or +infinity"},
       {"+inf target logit", poke("target_logits", 0, infinity), "NaN or +infinity"},
       {"NaN draft logit", poke("draft_logits", 7, nan), "NaN or +infinity"},
       {"+inf draft logit", poke("draft_logits", 4, infinity), "NaN or +infinity"},
       {"a row of -inf",
        [=](TensorSet& set) {
          for (std::size_t i = 4; i < 8; ++i) {
            poke("target_logits", i, -infinity)(set);
          }
        },
        "without any logit"},
       {"token V", poke<std::int32_t>("draft_tokens", 0, 4), "not in the vocabulary"},
       {"token -1", poke<std::int32_t>("draft_tokens", 1, -1), "not in the vocabulary"},
       {"uniform 1", poke("uniforms", 2, 1.0f), "outside [0, 1)"},
       {"uniform below 0", poke("uniforms", 0, -0.1f), "outside [0, 1)"},
       {"uniform NaN", poke("uniforms", 1, nan), "outside [0, 1)"},
       {"target without the bonus row",
        [](TensorSet& set) {
          set.tensors["target_logits"] = tensor_of(std::vector<float>(8), {2, 4});
        },
        "[gamma+1,V]"},
       {"too few uniforms",
        [](TensorSet& set) { set.tensors["uniforms"] = tensor_of(std::vector<float>(2), {2}); },
        "gamma+1"},
       {"R on one of the two", reshape("draft_tokens", {1, 2}), "R,gamma+1"},
       {"B on the target alone", reshape("target_logits", {1, 3, 4}), "B,gamma,V"},
       {"top_k below 0", key("top_k", "-1"), "an integer from 0"},
       {"top_k of half a token", key("top_k", "2.5"), "an integer from 0"},
       {"top_p of nothing", key("top_p", "0"), "above 0 and at most 1"},
       {"top_p nan", key("top_p", "nan"), "decimal number"},
       {"min_p beyond the likeliest", key("min_p", "1.01"), "from 0 to 1"},
       {"logits of I32",
        [](TensorSet& set) { set.tensors["target_logits"].type = StorageType::kI32; },
        "F32 (or F64, BF16, F16) is needed"},
       {"tokens of I64",
        [](TensorSet& set) {
          set.tensors["draft_tokens"] = tensor_of(std::vector<std::int64_t>{3, 0}, {2});
        },
        "I32 is needed"}});
}

TEST_CASE("spec_sample by sigmoids refuses scales that are none with exit 3") {
  TensorSet set = spec_sample_tensors();
  set.metadata["alpha"] = "-1000";
  set.metadata["beta"] = "1000";
  check_all(set, "spec_sample --variant sigmoid",
            {{"no alpha", drop_key("alpha"), "is missing"},
             {"no beta", drop_key("beta"), "is missing"},
             {"alpha at beta", key("alpha", "1000"), "alpha must be below beta"},
             {"alpha above beta", key("beta", "-1e4"), "alpha must be below beta"},
             {"alpha nan", key("alpha", "nan"), "decimal number"},
             {"temperature 0", key("temperature", "0"), "above 0"}});
}

TEST_CASE("tree_sample refuses every broken rule with exit 3") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  check_all(tree_sample_tensors(), "tree_sample",
            {{"no target", drop("target_logits"), "is missing"},
             {"no parent", drop("parent"), "is missing"},
             {"no tokens", drop("tokens"), "is missing"},
             {"no uniforms", drop("uniforms"), "is missing"},
             {"no temperature", drop_key("temperature"), "is missing"},
             {"negative temperature", key("temperature", "-1"), "must not be negative"},
             {"two roots", poke<std::int32_t>("parent", 2, -1), "parent[2]"},
             {"a parent of itself", poke<std::int32_t>("parent", 1, 1), "parent[1]"},
             {"a child before its parent", poke<std::int32_t>("parent", 1, 3), "parent[1]"},
             {"node 0 has a parent", poke<std::int32_t>("parent", 0, 0), "root"},
             {"token V", poke<std::int32_t>("tokens", 3, 4), "not in the vocabulary"},
             {"uniform 1", poke("uniforms", 3, 1.0f), "outside [0, 1)"},
             {"NaN logit", poke("target_logits", 5, nan), "NaN or +infinity"},
             {"misshapen parent", reshape("parent", {2, 2}), "[N]"},
             {"R on one of the two", reshape("uniforms", {1, 4}), "[N]"}});
}

TEST_CASE("names that the contract does not know are usage errors") {
  for (const char* arguments :
       {"nsa", "nsa_verify --variant fast", "topk --backend gpu", "topk --dtype f16",
        "spec_sample --variant typical", "topk --threads 0", "topk --threads x", "topk --bogus"}) {
    CAPTURE(arguments);
    const DoorRun run = run_door_on(topk_tensors(), arguments);
    CHECK(run.command.code == 2);
    CHECK(is_one_sentence(run.command.err));
    CHECK(!run.wrote);
  }
  CHECK(run_versieve("kernel").code == 2);
  CHECK(run_versieve("kernel topk --out /nowhere").code == 2);
  CHECK(run_versieve("kernel topk --in /nowhere").code == 2);
}

TEST_CASE("CUDA answers no to f64 and to head sizes it does not take") {
  const TensorSet set = nsa_tensors(small_nsa_case(1));
  check_refused(run_door_on(set, "nsa_verify --backend cuda --dtype f64"), 1, "f64");
  check_refused(run_door_on(set, "nsa_verify --dtype f16"), 2, "dtype f16 is for logits");
  check_refused(run_door_on(set, "nsa_verify --backend cuda"), 1, "multiple of 16");
}

TEST_CASE("CUDA without a GPU is the environment's fault, after the input was judged") {
  const char* hidden = "CUDA_VISIBLE_DEVICES= ";
#ifdef VERSIEVE_HAS_CUDA
  const char* missing = "NVIDIA driver";
#else
  const char* missing = "no CUDA engine";
#endif
  check_refused(run_door_on(topk_tensors(), "topk --backend cuda", hidden), 4, missing);
  TensorSet wrong = topk_tensors();
  wrong.metadata["k"] = "0";
  check_refused(run_door_on(wrong, "topk --backend cuda", hidden), 3, "must be an integer");
}

TEST_CASE("a file that is no safetensors file is exit 3") {
  const TempFolder folder;
  const std::string out = (folder / "out").string();
  for (const char* in : {"/dev/null", "/nowhere/in", "/proc/self/status", "/tmp"}) {
    CAPTURE(in);
    const CommandResult run =
        run_versieve(std::string("kernel topk --json --in ") + in + " --out " + out);
    CHECK(run.code == 3);
    CHECK(is_one_sentence(run.err));
    const nlohmann::json answer = nlohmann::json::parse(run.out);
    CHECK(answer["code"] == 3);
    CHECK("versieve: " + answer["error"].get<std::string>() + "\n" == run.err);
    CHECK(!std::filesystem::exists(out));
  }
}

TEST_CASE("cuts of logits outside their range are refused") {
  for (const auto& [key, value, sentence] : {std::tuple{"top_k", "-1", "top_k"},
                                             {"top_k", "1.5", "top_k"},
                                             {"top_p", "0", "top_p must be above 0"},
                                             {"top_p", "1.01", "top_p must be above 0"},
                                             {"min_p", "-0.1", "min_p must be from 0 to 1"},
                                             {"min_p", "x", "min_p"}}) {
    engine::TensorSet chain = spec_sample_tensors();
    chain.metadata[key] = value;
    check_refused(run_door_on(chain, "spec_sample"), 3, sentence);
    engine::TensorSet tree = tree_sample_tensors();
    tree.metadata[key] = value;
    check_refused(run_door_on(tree, "tree_sample"), 3, sentence);
  }
}

TEST_CASE("an output that cannot be written is exit 4 and leaves nothing") {
  TensorSet large = topk_tensors();
  large.metadata["k"] = "5000";
  // Two 512- or 1024-byte blocks: far less than the answer.
  check_refused(run_door_on(large, "topk", "ulimit -f 2; "), 4, "File too large");
  const TempFolder folder;
  const std::string in = (folder / "in").string();
  write_safetensors(in, topk_tensors());
  const CommandResult full = run_versieve("kernel topk --in " + in + " --out /dev/full");
  CHECK(full.code == 4);
  CHECK(contains(full.err, "No space left"));
  const CommandResult nowhere = run_versieve("kernel topk --in " + in + " --out /nowhere/out");
  CHECK(nowhere.code == 4);
  CHECK(is_one_sentence(nowhere.err));
}
