// What a Manual says of options that Boost.Program_options describes.
#pragma once

#include <boost/program_options.hpp>
#include <string>

#include "src/core/manual.h"

namespace carillon {

/// What `options` say, of which each has a name and a text.
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
    if (option->semantic()->min_tokens() == 0) value.clear();
    group.options.push_back(
        {.name = option->long_name(), .value = value, .text = option->description(), .default_value = default_value});
  }
  return group;
}

}  // namespace carillon
