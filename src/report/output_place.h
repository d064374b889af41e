// Output place: checks a file that an option names, before a long computation.
#pragma once

#include <filesystem>
#include <string_view>

namespace carillon {

/// Checks that the file can be written; changes nothing. `option`: without the dashes. `ending`: that of the name, with
/// its dot; empty: any. Errors: usage (another ending), io. Both name the option.
void check_output_place(std::string_view option, const std::filesystem::path& path, std::string_view ending = {});

}  // namespace carillon
