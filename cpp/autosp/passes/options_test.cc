// Options as text, and the report's text.
#include "autosp/passes/options.h"

#include <gtest/gtest.h>

#include "autosp/passes/report.h"

namespace autosp::passes {
namespace {

std::string refused(std::string_view name, std::string_view value) {
  Options options;
  const Status status = setOption(options, name, value);
  return status.isOk() ? "ok" : status.diagnostic().text();
}

TEST(Options, ReadAndWriteText) {
  const std::vector<std::pair<std::string, std::string>> wanted = {
      {"objective", "time"},
      {"gradients", "partial"},
      {"on_unsupported", "error"},
      {"outputs", "cut"},
      {"attention", "2d:4x2"},
      {"sequence_dims", "input_ids=1,labels=-1"},
      {"rules", "mylib.rope.default: b h s d, s d -> b h s d; mylib.f.default: s -> s"},
      {"checkpoint", "full"},
      {"memory_budget", "60.0%"},
      {"fused", "false"},
      {"on_cpu", "true"},
      {"repeat_collectives", "false"},
      {"rounding", "512"},
      {"sequence_length", "4096"},
      {"machine", "1e+14,2e+12,4.5e+11,1e-05,2e-06"},
      {"ranks", "1024"}};
  Options options;
  for (const auto& [name, value] : wanted) {
    const Status status = setOption(options, name, value);
    ASSERT_TRUE(status.isOk()) << status.diagnostic().text();
  }
  EXPECT_EQ(changedOptions(options), wanted);
  EXPECT_EQ(options.objective, Objective::kTime);
  EXPECT_TRUE(options.gradients_partial);
  EXPECT_EQ(options.sequence_dims[1].second, -1);
  EXPECT_EQ(options.memory_budget->percent, 60.0);
  EXPECT_EQ(options.machine.launch, 2e-6);
  EXPECT_EQ(options.rules[0].second, "b h s d, s d -> b h s d");
  EXPECT_EQ(optionHelp().size(), wanted.size());
}

TEST(Options, DefaultsReadBack) {
  Options options;
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"sequence_dims", "auto"},
                                                        {"outputs", "auto"},
                                                        {"rules", ""},
                                                        {"machine", "default"},
                                                        {"memory_budget", "none"},
                                                        {"machine", "5e+14,2.5e+12,2e+11,1e-05"},
                                                        {"ranks", "0"}}) {
    EXPECT_TRUE(setOption(options, name, value).isOk()) << name;
  }
  EXPECT_TRUE(changedOptions(options).empty());
}

TEST(Options, RefuseWhatTheyDoNotKnow) {
  EXPECT_EQ(refused("objectve", "time"),
            "unknown option 'objectve' (did you mean 'objective'?); the options are objective, "
            "gradients, on_unsupported, outputs, attention, sequence_dims, rules, checkpoint, "
            "memory_budget, fused, on_cpu, repeat_collectives, rounding, sequence_length, machine, "
            "ranks");
  EXPECT_EQ(refused("objective", "fast"),
            "option objective: expected memory or time, found 'fast'");
  EXPECT_EQ(refused("attention", "2d:4"),
            "option attention: expected auto, ulysses, gather, ring or 2d:UxR, found '2d:4'");
  EXPECT_EQ(refused("sequence_dims", "input_ids"),
            "option sequence_dims: expected auto or input=dim,input=dim, found 'input_ids'");
  EXPECT_EQ(refused("rules", "no spelling"),
            "option rules: expected op: spelling; op: spelling, found 'no spelling'");
  EXPECT_EQ(refused("machine", "1,2,3"),
            "option machine: expected default | FLOPS,MEMORY,LINK,LATENCY[,LAUNCH], found '1,2,3'");
  for (const char* budget : {"0", "0%", "101%", "-3", "40GiB", "%"}) {
    EXPECT_EQ(refused("memory_budget", budget),
              "option memory_budget: expected none, bytes or a share as 60%, found '" +
                  std::string(budget) + "'");
  }
  EXPECT_EQ(refused("checkpoint", "auto"),
            "option checkpoint: expected sac, stock or full, found 'auto'");
  EXPECT_EQ(refused("rounding", "0"), "option rounding: expected an integer, found '0'");
  EXPECT_EQ(refused("ranks", "2x"), "option ranks: expected an integer, found '2x'");
}

TEST(Report, TextHasALineForEach) {
  Report report;
  report.warning({Severity::kError, "aten.sort.default on %5", "m.py:8", "it is gathered", ""});
  report.remark({Severity::kError, "", "", "two ops are whole", ""});
  report.conversion({"%3", "aten.mm.default on %5", "m.py:9", ir::Form::whole(),
                     ir::Form::cutAt({1, 1, 1, 32, 0, 1}), "slice", "all-gather", 4096});
  report.entry("attention", "%9", "ulysses");
  report.entry("memory", "peak", "3 MiB");
  report.entry("attention", "%19", "ring");
  EXPECT_EQ(report.text(),
            "warning: aten.sort.default on %5 (m.py:8): it is gathered\n"
            "remark: two ops are whole\n"
            "conversions:\n"
            "  %3 R -> S(1,base=32) for aten.mm.default on %5 (m.py:9): forward slice, backward "
            "all-gather, 4096 bytes\n"
            "attention:\n  %9: ulysses\n  %19: ring\nmemory:\n  peak: 3 MiB\n");
}

}  // namespace
}  // namespace autosp::passes
