// Errors of the core. Each carries a stable code and named facts that the layers above turn into
// typed errors.
#pragma once

#include <atomic>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tokengrad {

class Error : public std::runtime_error {
 public:
  using Fact = std::variant<double, std::string, std::vector<double>>;
  using Facts = std::vector<std::pair<std::string, Fact>>;

  Error(std::string code, const std::string& message, Facts facts = {})
      : std::runtime_error(message), code_(std::move(code)), facts_(std::move(facts)) {}

  /// Stable, machine-readable reason, such as `ERR_PROGRAM`.
  const std::string& code() const { return code_; }
  /// What is known of the fault, by name: `sample`, `position`, `reason`, ...
  const Facts& facts() const { return facts_; }

 private:
  std::string code_;
  Facts facts_;
};

/// Converts the exception being handled into an `Error`, where libtorch is not linked. Call inside
/// a `catch` block only. What is no `Error` becomes `ERR_NATIVE`.
inline Error standard_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error("ERR_NATIVE", "out of memory");
  } catch (const std::exception& error) {
    return Error("ERR_NATIVE", error.what());
  } catch (...) {
    return Error("ERR_NATIVE", "internal: an exception of an unknown type");
  }
}

/// As `standard_error`, and a libtorch error becomes `ERR_NATIVE` with its message but not its
/// backtrace.
Error current_error();

/// Asks running work to stop. Work looks at it between ops; a single op is never cut short.
class CancelFlag {
 public:
  void set() { set_.store(true, std::memory_order_relaxed); }
  bool is_set() const { return set_.load(std::memory_order_relaxed); }
  /// Throws `ERR_ABORTED` once the flag is set.
  void check() const {
    if (is_set()) throw Error("ERR_ABORTED", "the run was cancelled");
  }

 private:
  std::atomic<bool> set_{false};
};

}  // namespace tokengrad
