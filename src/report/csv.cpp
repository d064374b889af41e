#include "src/report/csv.h"

namespace carillon {

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return std::string(text);
  std::string field = "\"";
  for (const char c : text) field.append(c == '"' ? "\"\"" : std::string_view(&c, 1));
  return field + "\"";
}

}  // namespace carillon
