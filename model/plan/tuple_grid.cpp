// The grid of tuples that a plan goes over, and which of them it leaves out, with the reason.
#include "model/plan/tuple_grid.h"

#include "model/cost/adapted_chain.h"
#include "model/plan/planner.h"
#include "model/words/chain_length.h"

namespace versieve {
namespace {

constexpr std::int64_t kDepths[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14};
constexpr std::int64_t kWidths[] = {1, 2, 3, 4, 6, 8, 10};
constexpr std::int64_t kNodes[] = {2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 16, 24, 32, 48, 64, 96, 128};

std::int64_t tree_pool(std::int64_t depth, std::int64_t width) {
  return 1 + width + (depth - 1) * width * width;
}

// A tree has more than a node a level, which would be a chain.
bool sensible(const DraftChoice& d) {
  return d.nodes > d.depth + 1 && d.nodes <= tree_pool(d.depth, d.width);
}

std::vector<DraftChoice> draft_choices() {
  std::vector<DraftChoice> grid;
  for (const std::int64_t depth : kDepths) {
    for (const std::int64_t width : kWidths) {
      if (width == 1) {
        grid.push_back({.depth = depth, .width = 1, .nodes = depth + 1});
        continue;
      }
      for (const std::int64_t nodes : kNodes) {
        const DraftChoice choice{.depth = depth, .width = width, .nodes = nodes};
        if (sensible(choice)) {
          grid.push_back(choice);
        }
      }
    }
  }
  return grid;
}

struct Group {
  std::int64_t size;
  GroupMode mode;
};
constexpr Group kGroups[] = {{1, GroupMode::kExact},  {2, GroupMode::kExact},
                             {4, GroupMode::kExact},  {8, GroupMode::kExact},
                             {2, GroupMode::kApprox}, {4, GroupMode::kApprox},
                             {8, GroupMode::kApprox}};

void add_variants(const DraftChoice& draft, const std::vector<std::string>& schedules,
                  std::vector<Strategy>& space) {
  for (const Traversal order : {Traversal::kBfs, Traversal::kDfs}) {
    for (const Group& group : kGroups) {
      for (const std::string& schedule : schedules) {
        Strategy s;
        s.draft = draft;
        s.order = order;
        s.group_size = group.size;
        s.group_mode = group.mode;
        s.schedule = schedule;
        space.push_back(s);
      }
    }
  }
}

}  // namespace

DraftGrid draft_grid() {
  return {kDepths, kWidths, kNodes};
}

std::vector<Strategy> enumerate_space(const LlmShape&, const std::vector<std::string>& schedules) {
  std::vector<Strategy> space;
  for (const std::string& schedule : schedules) {
    Strategy ar;
    ar.schedule = schedule;
    space.push_back(ar);
  }
  for (const DraftChoice& draft : draft_choices()) {
    add_variants(draft, schedules, space);
  }
  return space;
}

std::vector<Strategy> adapted_chains(const std::vector<std::string>& schedules) {
  std::vector<Strategy> chains;
  for (const std::int64_t depth : kDepths) {
    for (const std::string& schedule : schedules) {
      if (depth >= kFirstChainLength) {
        chains.push_back({.draft = chain_of(depth), .schedule = schedule, .adapts_length = true});
      }
    }
  }
  return chains;
}

std::string not_planned_because(const Strategy& s, const LlmShape& target, NsaForm form) {
  const std::string illegal = illegal_because(s, target);
  if (!illegal.empty()) {
    return illegal;
  }
  if (s.attention != AttentionMethod::kNsa) {
    return kOnlyNsa;
  }
  if (s.sampling == SamplingAlgorithm::kSigmoid) {
    return kSigmoidUnknown;
  }
  if (form == NsaForm::kVanilla && approximate_group(s) > 2) {
    return "the launches priced load for each query alone, whatever its approximate group: c2a, "
           "which shares least, stands for c4a and c8a";
  }
  if (form == NsaForm::kVanilla && s.group_size > 1 && s.group_mode == GroupMode::kExact) {
    return "exact groups have the output of c1, and the launches measured here load for each query "
           "alone: c1 stands for them";
  }
  if (s.order == Traversal::kDfs && (s.group_size == 1 || form == NsaForm::kVanilla)) {
    return "the traversal order changes no launch of groups of one query: bfs stands for dfs";
  }
  return {};
}

std::string not_ranked_because(const Strategy& s, const AcceptanceModel& acceptance) {
  if (s.order == Traversal::kDfs && !knows_order(acceptance, Traversal::kDfs)) {
    return "what groups of dfs share was not measured of this pair (profile --sweep pair does): "
           "bfs is ranked";
  }
  return {};
}

}  // namespace versieve
