// The keys of JSON objects.
#pragma once

#include <string>
#include <string_view>

namespace tokengrad {

/// A key without its escapes, to be compared with an ASCII name: whatever is escaped and not
/// printable ASCII becomes a character that is in none.
std::string unescaped_key(std::string_view key);

}  // namespace tokengrad
