// The output of carillon_predict --json, as JSON objects.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/run_program.h"

namespace carillon {

/// Returns one object for each picture. `arguments`: checkpoint and pictures. The program must succeed.
inline std::vector<nlohmann::json> predictions(const std::string& arguments) {
  const Outcome outcome = run_program("carillon_predict --json " + arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  std::istringstream lines(outcome.output);
  std::vector<nlohmann::json> objects;
  for (std::string line; std::getline(lines, line);) objects.push_back(nlohmann::json::parse(line));
  return objects;
}

}  // namespace carillon
