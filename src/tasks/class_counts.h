// ClassCounts: the samples of one class or label, against all others.
//
//   precision = correct / predicted    recall = correct / support    F1 = 2 correct / (support + predicted)
#pragma once

#include <cstdint>
#include <optional>

namespace carillon {

struct ClassCounts {
  std::int64_t support = 0;    ///< samples of the class
  std::int64_t predicted = 0;  ///< samples that are predicted as the class
  std::int64_t correct = 0;    ///< samples that are both

  // nullopt: 0 / 0.
  std::optional<double> precision() const { return ratio(correct, predicted); }
  std::optional<double> recall() const { return ratio(correct, support); }
  std::optional<double> f1() const { return ratio(2 * correct, support + predicted); }
  std::int64_t mistakes() const { return support - correct; }

 private:
  static std::optional<double> ratio(std::int64_t part, std::int64_t whole) {
    return whole > 0 ? std::optional(static_cast<double>(part) / static_cast<double>(whole)) : std::nullopt;
  }
};

}  // namespace carillon
