// How the modules of the binding take options, and raise what the core answers:
// autosp.errors.CompileError.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>
#include <vector>

#include "autosp/passes/options.h"
#include "autosp/support/status.h"

namespace autosp::bindings {

using OptionTexts = std::vector<std::pair<std::string, std::string>>;

[[noreturn]] inline void raise(const Diagnostic& diagnostic) {
  namespace nb = nanobind;
  using namespace nb::literals;
  auto text = [](const std::string& s) -> nb::object {
    return s.empty() ? nb::none() : nb::object(nb::str(s.c_str(), s.size()));
  };
  nb::object type = nb::module_::import_("autosp.errors").attr("CompileError");
  nb::object error =
      type(diagnostic.message, "op"_a = text(diagnostic.op),
           "location"_a = text(diagnostic.location), "remedy"_a = text(diagnostic.remedy));
  PyErr_SetObject(type.ptr(), error.ptr());
  throw nb::python_error();
}

inline void check(const Status& status) {
  if (!status.isOk()) {
    raise(status.diagnostic());
  }
}

template <typename T>
T take(Result<T> result) {
  if (!result.isOk()) {
    raise(result.diagnostic());
  }
  return std::move(result).value();
}

inline passes::Options parseOptions(const OptionTexts& texts) {
  passes::Options options;
  for (const auto& [name, value] : texts) {
    check(passes::setOption(options, name, value));
  }
  return options;
}

}  // namespace autosp::bindings
