// The keys of JSON objects.
#include "core/wire/json_key.h"

namespace tokengrad {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace

std::string unescaped_key(std::string_view key) {
  std::string plain;
  for (size_t i = 0; i < key.size(); ++i) {
    if (key[i] != '\\' || i + 1 == key.size()) {
      plain += key[i];
      continue;
    }
    const char kind = key[++i];
    if (kind == 'u') {
      int code = 0;
      for (int k = 0; k < 4; ++k) {
        const int digit = i + 1 < key.size() ? hex_value(key[++i]) : -1;
        code = digit < 0 || code < 0 ? -1 : 16 * code + digit;
      }
      plain += code >= ' ' && code < 0x7f ? static_cast<char>(code) : '\0';
    } else {
      // The others stand for control characters.
      plain += kind == '"' || kind == '\\' || kind == '/' ? kind : '\0';
    }
  }
  return plain;
}

}  // namespace tokengrad
