// Text into graphs: the inverse of the printer, whose header shows the format. Comments run from
// "//" to the end of the line; white space, line ends included, only separates. Inputs, ops and
// outputs come in this order, a value is defined before it is read, and an id is given once; what
// else makes a graph legal is the verifier's concern. Errors say the place, what was expected and
// what was found (support/text_cursor.h).
#pragma once

#include <string>
#include <string_view>

#include "autosp/ir/graph.h"
#include "autosp/support/status.h"
#include "autosp/support/text_cursor.h"

namespace autosp::ir {

// `source`, when given, stands before the line and column in errors ("plan.sp:3:14: ...").
Result<Graph> parse(std::string_view text, std::string source = "");

// Parts of it, at the cursor. A form's base is always written: "R", "Q", "P", "S(1,base=32)".
Result<TensorType> parseType(TextCursor& cursor);
Result<Form> parseForm(TextCursor& cursor);

}  // namespace autosp::ir
