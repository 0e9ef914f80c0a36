// What a pass is given besides the graph: the options, the report, and what earlier passes found that the
// graph does not hold.
#pragma once

#include "autosp/passes/options.h"
#include "autosp/passes/report.h"

namespace autosp::passes {

struct PassContext {
  const Options& options;
  Report& report;
};

}  // namespace autosp::passes
