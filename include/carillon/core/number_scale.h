// NumberScale: how a number of a record is standardised, so that networks see values near 0.
#pragma once

namespace carillon {

/// standardised = (number - mean) / deviation
struct NumberScale {
  double mean = 0.0;
  double deviation = 1.0;  ///< above 0

  double standardised(double number) const { return (number - mean) / deviation; }
  double number(double standardised) const { return standardised * deviation + mean; }
  bool operator==(const NumberScale&) const = default;
};

}  // namespace carillon
