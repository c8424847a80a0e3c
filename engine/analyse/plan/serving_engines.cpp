// The serving engines and the names of their settings. Sources: the documentation and the argument
// readers of each, in the versions named in its row; no engine was run.
#include <algorithm>
#include <cstdio>

#include "engine/analyse/plan/deployment.h"

namespace versieve::engine {
namespace {

// A double-quoted YAML scalar of one line.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char code[8];
      std::snprintf(code, sizeof code, "\\x%02X", static_cast<unsigned>(c));
      out += code;
    } else {
      out += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    }
  }
  return out + "\"";
}

std::string line(const std::string& key, std::int64_t value) {
  return key + ": " + std::to_string(value) + "\n";
}

// A table does not know where the draft's weights are.
std::string draft_line(const std::string& key, const std::string& draft_model) {
  return draft_model.empty() ? "# " + key + ": PATH  # must be given: the table does not know it\n"
                             : key + ": " + quoted(draft_model) + "\n";
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

std::string sglang_settings(const DraftChoice& draft, const std::string& draft_model) {
  return "speculative-algorithm: EAGLE3\n" +
         draft_line("speculative-draft-model-path", draft_model) +
         line("speculative-num-steps", draft.depth) + line("speculative-eagle-topk", draft.width) +
         line("speculative-num-draft-tokens", draft.nodes);
}

const char* sglang_caution(const DraftChoice& draft) {
  return draft.width == 1 ? ""
                          : "A top-k above 1 needs KV pages of one token or an attention backend "
                            "that takes trees with larger ones, and some versions take chains "
                            "only while their scheduler overlaps.";
}

std::string vllm_settings(const DraftChoice& draft, const std::string& draft_model) {
  return "speculative-config:\n  method: eagle3\n  " + draft_line("model", draft_model) +
         line("  num_speculative_tokens", draft.depth);
}

const char* vllm_caution(const DraftChoice&) {
  return "Older versions read no mapping from a file: give them the same three keys as JSON after "
         "--speculative-config.";
}

std::string trtllm_settings(const DraftChoice& draft, const std::string& draft_model) {
  const std::string chain = "speculative_config:\n  decoding_type: Eagle3\n  " +
                            draft_line("speculative_model", draft_model) +
                            line("  max_draft_len", draft.depth);
  return draft.width == 1
             ? chain
             : chain + "  use_dynamic_tree: true\n" + line("  dynamic_tree_max_topK", draft.width) +
                   line("  max_total_draft_tokens", draft.nodes - 1);
}

const char* trtllm_caution(const DraftChoice& draft) {
  return draft.width == 1
             ? ""
             : "Dynamic trees exclude targets with sliding windows or MLA, and some versions "
               "switch them off on the newest GPUs. max_batch_size is left out: versions differ "
               "on whether it belongs inside the block. While drafting it holds KV slots of top-k "
               "x depth tokens.";
}

constexpr ServingEngine kEngines[] = {
    {.format = "sglang",
     .name = "SGLang",
     .versions = "0.5.4 and later (releases that read --config)",
     .command = "python -m sglang.launch_server --model-path TARGET --config FILE.yaml",
     .limit = "all drafts fit",
     .counts_root = true,
     .carried = whole,
     .settings = sglang_settings,
     .caution = sglang_caution},
    {.format = "vllm",
     .name = "vLLM",
     .versions = "0.16 to 0.30 (releases that read mappings from --config)",
     .command = "vllm serve TARGET --config FILE.yaml",
     .limit = "it drafts chains only",
     .counts_root = false,
     .carried = as_chain,
     .settings = vllm_settings,
     .caution = vllm_caution},
    {.format = "trtllm",
     .name = "TensorRT-LLM",
     .versions = "1.3.0rc27 to 1.4.0rc1 (PyTorch backend)",
     .command = "trtllm-serve TARGET --config FILE.yaml",
     .limit = "it verifies at most top-k x depth drafted tokens",
     .counts_root = false,
     .carried = within_product,
     .settings = trtllm_settings,
     .caution = trtllm_caution},
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
