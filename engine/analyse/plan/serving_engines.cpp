// The serving engines and the names of their settings. Sources: the documentation and the argument
// readers of each, in the versions named in its row; no server was started.
#include <algorithm>

#include "engine/analyse/plan/deployment.h"
#include "engine/analyse/plan/yaml_text.h"

namespace versieve::engine {
namespace {

// The end of a schedule's last row: no server runs as many requests at once.
constexpr std::int64_t kLargestBatch = 8192;

std::string line(const std::string& key, std::int64_t value) {
  return key + ": " + std::to_string(value) + "\n";
}

// A table does not know where the draft's weights are. Left out, SGLang would silently draft with
// the target itself; no path and no hub has a name like this one.
std::string draft_line(const std::string& key, const DeploymentFacts& facts) {
  return key + ": " +
         yaml_quoted(facts.draft_model.empty() ? "<path of the draft's weights>"
                                               : facts.draft_model) +
         "\n";
}

DraftChoice whole(const DraftChoice& draft) {
  return draft;
}

DraftChoice as_chain(const DraftChoice& draft) {
  return {.depth = draft.depth, .width = 1, .nodes = draft.depth + 1};
}

// Its argument check: drafted tokens, root left out, at most top-k times depth.
DraftChoice within_product(const DraftChoice& draft) {
  DraftChoice out = draft;
  out.nodes = std::min(draft.nodes, draft.depth * draft.width + 1);
  return out;
}

std::string sglang_settings(const DeploymentFacts& facts) {
  const DraftChoice& draft = facts.draft;
  return std::string("speculative-algorithm: ") + (facts.draft_is_model ? "STANDALONE" : "EAGLE3") +
         "\n" + draft_line("speculative-draft-model-path", facts) +
         line("speculative-num-steps", draft.depth) + line("speculative-eagle-topk", draft.width) +
         line("speculative-num-draft-tokens", draft.nodes) +
         (draft.width > 1 && facts.is_hopper ? "attention-backend: fa3\n" : "");
}

std::string sglang_caution(const DeploymentFacts& facts) {
  const std::string batches =
      facts.batch_limit
          ? "No setting ends a tree above a batch: where more than " +
                std::to_string(*facts.batch_limit) +
                " requests run at once, measure against a server without speculation. "
          : "";
  if (facts.draft.width == 1) {
    return batches;
  }
  return batches +
         (facts.is_hopper
              ? "On Hopper a top-k above 1 takes FA3 from the whole server unless "
                "attention-backend is set, so it is set here; it also takes page-size 64. "
              : "On Hopper set attention-backend: fa3 too: a top-k above 1 otherwise takes FA3 "
                "from the whole server. ") +
         "A top-k above 1 resets max-running-requests to 48 where it is not set.";
}

// Of a draft model of its own no example of its documentation has the schedule.
bool schedules_batches(const DeploymentFacts& facts) {
  return facts.batch_limit && !facts.draft_is_model;
}

std::string vllm_settings(const DeploymentFacts& facts) {
  const std::string length = std::to_string(facts.draft.depth);
  const std::string settings = std::string("speculative-config:\n  method: ") +
                               (facts.draft_is_model ? "draft_model" : "eagle3") + "\n  " +
                               draft_line("model", facts) +
                               line("  num_speculative_tokens", facts.draft.depth);
  if (!schedules_batches(facts)) {
    return settings;
  }
  const std::string limit = std::to_string(*facts.batch_limit);
  const std::string beyond = std::to_string(*facts.batch_limit + 1);
  return settings + "  num_speculative_tokens_per_batch_size: [[1, " + limit + ", " + length +
         "], [" + beyond + ", " + std::to_string(std::max(kLargestBatch, *facts.batch_limit + 1)) +
         ", 0]]\n";
}

std::string vllm_caution(const DeploymentFacts& facts) {
  const std::string schedule =
      schedules_batches(facts)
          ? "The schedule drafts up to that batch and not beyond (0 is off, and the last length "
            "carries on); vLLM takes none under data parallelism: leave it out there. "
          : "";
  return schedule + "Drafting stops at the draft's own max_position_embeddings, often 2048: " +
         "contexts of " + name_of(facts.bucket) + " tokens need a draft that reaches them.";
}

std::string trtllm_settings(const DeploymentFacts& facts) {
  const DraftChoice& draft = facts.draft;
  const std::string chain = std::string("speculative_config:\n  decoding_type: ") +
                            (facts.draft_is_model ? "Draft_Target" : "Eagle3") + "\n  " +
                            draft_line("speculative_model", facts) +
                            line("  max_draft_len", draft.depth);
  const std::string tree = draft.width == 1 ? ""
                                            : "  use_dynamic_tree: true\n" +
                                                  line("  dynamic_tree_max_topK", draft.width) +
                                                  line("  max_total_draft_tokens", draft.nodes - 1);
  return chain + tree +
         (facts.batch_limit ? line("  max_concurrency", *facts.batch_limit) : std::string());
}

std::string trtllm_caution(const DeploymentFacts& facts) {
  const std::string batches = facts.batch_limit
                                  ? "Above max_concurrency requests it does not draft (some "
                                    "versions of 2026 go on with one token); draft_len_schedule "
                                    "would exclude that setting. "
                                  : "";
  return facts.draft.width == 1
             ? batches
             : batches +
                   "Dynamic trees exclude targets with sliding windows or MLA, and some versions "
                   "switch them off on the newest GPUs; an older argument reader overwrites "
                   "max_total_draft_tokens with max_draft_len, so look for both in the log. "
                   "max_batch_size is left out: versions differ on whether it belongs inside the "
                   "block. While drafting it holds KV slots of top-k x depth tokens.";
}

constexpr const char* kNoSuchAttention =
    "none of its settings selects blocks by bounds of their keys, or tokens by a draft's attention";

constexpr ServingEngine kEngines[] = {
    {.format = "sglang",
     .name = "SGLang",
     .versions = "0.5.23",
     .command = "python -m sglang.launch_server --model-path TARGET --config FILE.yaml",
     .limit = "all drafts fit",
     .counts_root = true,
     .carried = whole,
     .settings = sglang_settings,
     .caution = sglang_caution,
     .keeps_drafted = "speculative-accept-threshold-single: 0.0\n",
     .keeping =
         "every drafted token is kept whose target probability is at least 0, which all are, "
         "where sigmoids keep nearly all; requests at temperature 0 keep the exact rule, and "
         "speculative-use-rejection-sampling would exclude the setting",
     .other_acceptance = "",
     .other_attention = kNoSuchAttention},
    {.format = "vllm",
     .name = "vLLM",
     .versions = "0.33.0",
     .command = "vllm serve TARGET --config FILE.yaml",
     .limit = "it drafts chains only",
     .counts_root = false,
     .carried = as_chain,
     .settings = vllm_settings,
     .caution = vllm_caution,
     .keeps_drafted = nullptr,
     .keeping = "",
     .other_acceptance = "its rejection_sample_method synthetic is for benchmarks, and others that "
                         "lose something (fly, in later versions) defer single rejections",
     .other_attention = kNoSuchAttention},
    {.format = "trtllm",
     .name = "TensorRT-LLM",
     .versions = "1.3 to 1.4 (PyTorch backend)",
     .command = "trtllm-serve TARGET --config FILE.yaml",
     .limit = "it verifies at most top-k x depth drafted tokens",
     .counts_root = false,
     .carried = within_product,
     .settings = trtllm_settings,
     .caution = trtllm_caution,
     .keeps_drafted = nullptr,
     .keeping = "",
     .other_acceptance = "relaxed_topk and relaxed_delta are of decoding_type MTP alone",
     .other_attention = "the algorithms of its sparse_attention_config (rocket, dsa, skip_softmax) "
                        "select by other rules, of which the table has no number"},
};

}  // namespace

const ServingEngine* serving_engine(const std::string& format) {
  for (const ServingEngine& engine : kEngines) {
    if (format == engine.format) {
      return &engine;
    }
  }
  return nullptr;
}

}  // namespace versieve::engine
