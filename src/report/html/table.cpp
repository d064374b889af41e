#include "src/report/html/table.h"

#include <fmt/format.h>

#include <cmath>

#include "src/report/html/text.h"
#include "src/report/texts.h"

namespace carillon {

std::string table_box(std::string_view kind, std::string_view label, const std::string& rows) {
  return fmt::format(
      "<div class=\"box{}\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table class=\"{}\">{}</table></div>\n",
      kind.starts_with("matrix") ? " whole" : "", label, kind, rows);
}

std::string table_heading(std::initializer_list<std::string_view> titles) {
  std::string row = "<thead><tr>";
  for (std::string_view title : titles) {
    const bool is_number = title.starts_with('#');
    if (is_number) title.remove_prefix(1);
    row += fmt::format("<th scope=\"col\"{}>{}</th>", is_number ? " class=\"n\"" : "", title);
  }
  return row + "</tr></thead>";
}

std::string number_cell(std::string_view text) { return fmt::format("<td class=\"n\">{}</td>", text); }

std::string number_cell(std::int64_t count) { return number_cell(fmt::format("{}", count)); }

std::string number_cell(std::optional<double> number) {
  return number_cell(number && !std::isnan(*number) ? fmt::format("{:.4f}", *number) : "–");
}

std::string name_cell(std::string_view name) { return fmt::format("<td class=\"name\"><bdi>{}</bdi></td>", name); }

std::string html_name(std::span<const std::string> names, std::size_t i) {
  return html_text(name_or_number(names, i), 120);
}

}  // namespace carillon
