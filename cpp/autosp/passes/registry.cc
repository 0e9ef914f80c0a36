#include "autosp/passes/registry.h"

#include <algorithm>

#include "autosp/passes/passes.h"
#include "autosp/support/nearest.h"

namespace autosp::passes {

const std::vector<Pass>& registry() {
  static const std::vector<Pass> kPasses = {
      {"remove-dead-ops", "Removes ops that no output and no effect needs.", removeDeadOps, {}, {}},
      {"canonicalize",
       "Makes in-place ops functional and removes ops that change nothing.",
       canonicalize,
       {},
       {"functional"}},
      {"analyze-masks",
       "Turns provably causal masks into is_causal and removes masks that are always true.",
       analyzeMasks,
       {"functional"},
       {}},
      {"fold-repeat-kv",
       "Lets attention read keys and values at their own heads.",
       foldRepeatKv,
       {"functional"},
       {}},
      {"lower-random",
       "Makes dropout a pure function of a seed and the element index; refuses other random ops.",
       lowerRandom,
       {},
       {"deterministic"}},
      {"choose-placement",
       "Chooses a form for every value and a strategy for every op, exactly.",
       choosePlacement,
       {"deterministic"},
       {"placement"}},
      {"insert-conversions",
       "Makes the forms that the placement asks for and lowers ops by strategy.",
       insertConversions,
       {"placement"},
       {"conversions"}},
      {"merge-collectives",
       "Makes neighbouring conversions of one kind one collective.",
       mergeCollectives,
       {"conversions"},
       {}},
      {"choose-checkpoints",
       "Chooses what the forward of a joint graph saves and what its backward runs again, within a "
       "budget.",
       chooseCheckpoints,
       {},
       {"checkpoints"}},
      {"report-plan",
       "Writes the plan's conversions into the report.",
       reportPlan,
       {"conversions"},
       {}},
  };
  return kPasses;
}

Result<std::vector<Pass>> findPasses(const std::vector<std::string>& names) {
  std::vector<Pass> out;
  for (const std::string& name : names) {
    const auto& all = registry();
    const auto at =
        std::find_if(all.begin(), all.end(), [&](const Pass& p) { return p.name == name; });
    if (at == all.end()) {
      std::vector<std::string> known;
      for (const Pass& pass : all) {
        known.push_back(pass.name);
      }
      return Status::error("unknown pass '" + name + "'" + didYouMean(name, known));
    }
    out.push_back(*at);
  }
  return out;
}

}  // namespace autosp::passes
