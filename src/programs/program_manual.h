// Converts an options_description of Boost.Program_options to a group of a Manual.
#pragma once

#include <boost/program_options.hpp>
#include <string>

#include "src/core/manual.h"

namespace carillon {

/// Each option must have a name and a description.
inline ManualGroup manual_group(const std::string& heading,
                                const boost::program_options::options_description& options) {
  ManualGroup group{heading, {}};
  for (const auto& option : options.options()) {
    std::string value = option->semantic()->name();  // "N (=1)"
    std::string default_value;
    if (const std::size_t at = value.find(" (="); at != value.npos) {
      default_value = value.substr(at + 3, value.size() - at - 4);
      value.erase(at);
    }
    if (option->semantic()->min_tokens() == 0) {  // a flag
      value.clear();
      default_value.clear();
    }
    group.options.push_back(
        {.name = option->long_name(), .value = value, .text = option->description(), .default_value = default_value});
  }
  return group;
}

}  // namespace carillon
