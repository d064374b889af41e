#include "src/report/html_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/report/html_text.h"

namespace carillon {
namespace {

/// The area of a plot within its figure, in SVG units.
struct Area {
  double left = 0.0, top = 0.0, right = 0.0, bottom = 0.0;
};

struct Range {
  double low = 0.0, high = 1.0;
  double step = 0.2;  ///< between ticks
};

/// 1, 2 or 5 times a power of ten, about `range` / `count`.
double tick_step(double range, int count) {
  const double power = std::pow(10.0, std::floor(std::log10(range / count)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (range / (factor * power) <= count) return factor * power;
  }
  return 10.0 * power;
}

/// A range of whole ticks around the values.
Range range_around(double low, double high) {
  if (!(high > low)) {
    const double margin = low == 0.0 ? 1.0 : std::abs(low) * 0.1;
    low -= margin;
    high += margin;
  }
  constexpr int ticks = 5;
  const double step = tick_step(high - low, ticks);
  return {std::floor(low / step + 1e-9) * step, std::ceil(high / step - 1e-9) * step, step};
}

std::string number_text(double value) {
  const double size = std::abs(value);
  if (size >= 1e6) return fmt::format("{:.4g}M", value / 1e6);
  if (size >= 1e4) return fmt::format("{:.4g}k", value / 1e3);
  return fmt::format("{:.4g}", size < 1e-12 ? 0.0 : value);
}

/// Maps values to places in a figure.
class Axes {
 public:
  Axes(const Area& area, const Range& x, const Range& y) : area_(area), x_(x), y_(y) {}

  double x(double value) const {
    return area_.left + (value - x_.low) / (x_.high - x_.low) * (area_.right - area_.left);
  }
  double y(double value) const {
    return area_.bottom - (value - y_.low) / (y_.high - y_.low) * (area_.bottom - area_.top);
  }
  const Area& area() const { return area_; }

  /// Grid lines, ticks and their numbers. `decimals` of the y axis: as required.
  std::string grid(const std::string& x_title) const {
    std::string svg;
    for (int i = 0; y_.low + i * y_.step <= y_.high + y_.step * 1e-6; ++i) {
      const double value = y_.low + i * y_.step;
      svg += fmt::format(
          R"(<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/><text class="r" x="{:.1f}" y="{:.1f}">{}</text>)",
          area_.left, area_.right, y(value), y(value), area_.left - 6, y(value) + 4, number_text(value));
    }
    for (int i = 0; x_.low + i * x_.step <= x_.high + x_.step * 1e-6; ++i) {
      const double value = x_.low + i * x_.step;
      svg += fmt::format(
          R"(<line class="tick" x1="{0:.1f}" x2="{0:.1f}" y1="{1:.1f}" y2="{2:.1f}"/><text class="m" x="{0:.1f}" y="{3:.1f}">{4}</text>)",
          x(value), area_.bottom, area_.bottom + 4, area_.bottom + 17, number_text(value));
    }
    svg += fmt::format(R"(<line class="axis" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>)", area_.left,
                       area_.right, area_.bottom, area_.bottom);
    return svg + fmt::format(R"(<text class="m" x="{:.1f}" y="{:.1f}">{}</text>)", (area_.left + area_.right) / 2,
                             area_.bottom + 34, x_title);
  }

 private:
  Area area_;
  Range x_, y_;
};

std::string figure(const std::string& title, const std::string& keys, double width, double height,
                   const std::string& svg) {
  return fmt::format(
      "<figure class=\"chart\"><figcaption><b>{}</b>{}</figcaption>\n"
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">{}</svg></figure>\n",
      title, keys, width, height, title, svg);
}

std::string drawn(const ChartLine& line, const Axes& axes) {
  constexpr std::size_t max_points = 240;
  const char* const kind = line.is_second ? "b" : "a";
  std::string places, marks;
  for (const CurvePoint& point : thinned(line.points, max_points)) {
    places += fmt::format("{}{:.1f},{:.1f}", places.empty() ? "" : " ", axes.x(point.step), axes.y(point.value));
    if (!line.is_second) continue;
    marks +=
        fmt::format(R"(<circle class="b" cx="{:.1f}" cy="{:.1f}" r="3"><title>step {:.0f}: {:.4f}</title></circle>)",
                    axes.x(point.step), axes.y(point.value), point.step, point.value);
  }
  return fmt::format(R"(<polyline class="{}" points="{}"/>)", kind, places) + marks;
}

}  // namespace

std::string line_chart(const LineChart& chart) {
  constexpr double width = 440, height = 260;
  std::vector<CurvePoint> all;
  for (const ChartLine& line : chart.lines) all.insert(all.end(), line.points.begin(), line.points.end());
  if (all.empty()) return {};
  const auto [first, last] = std::ranges::minmax_element(all, {}, &CurvePoint::step);
  const auto [lowest, highest] = std::ranges::minmax_element(all, {}, &CurvePoint::value);
  Range steps = range_around(first->step, last->step);
  steps.low = std::max(steps.low, 0.0);
  const double low = chart.starts_at_zero ? std::min(lowest->value, 0.0) : lowest->value;
  const Axes axes({52, 10, width - 16, height - 42}, steps, range_around(low, highest->value));
  std::string svg = axes.grid("step"), keys;
  if (chart.marked_step && *chart.marked_step >= steps.low && *chart.marked_step <= steps.high) {
    svg += fmt::format(R"(<line class="mark" x1="{0:.1f}" x2="{0:.1f}" y1="{1:.1f}" y2="{2:.1f}"/>)",
                       axes.x(*chart.marked_step), axes.area().top, axes.area().bottom);
  }
  for (const ChartLine& line : chart.lines) {
    if (line.points.empty()) continue;
    svg += drawn(line, axes);
    keys += fmt::format(R"( <span class="key {}">{}</span>)", line.is_second ? "b" : "a", html_text(line.name));
  }
  return figure(chart.title, keys, width, height, svg);
}

std::string calibration_chart(const Calibration& calibration) {
  constexpr double width = 440, height = 390, middle = 268;
  const Area upper{52, 10, width - 16, middle}, lower{52, middle + 14, width - 16, height - 42};
  const Axes axes(upper, {0.0, 1.0, 0.2}, {0.0, 1.0, 0.2});
  std::int64_t largest = 1;
  for (const Calibration::Bin& bin : calibration.bins()) largest = std::max(largest, bin.count);
  std::string bars, counts, points;
  constexpr auto bins = static_cast<double>(Calibration::bin_count);
  for (std::size_t i = 0; i < Calibration::bin_count; ++i) {
    const Calibration::Bin& bin = calibration.bins()[i];
    if (bin.count == 0) continue;
    const double left = axes.x(static_cast<double>(i) / bins), wide = axes.x(1.0 / bins) - axes.x(0.0) - 2.0;
    const std::string title =
        fmt::format("confidence {:.3f}, accuracy {:.3f}, {} records", bin.mean_confidence(), bin.accuracy(), bin.count);
    const double top = axes.y(bin.accuracy());
    bars +=
        fmt::format(R"(<rect class="a" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>)",
                    left + 1.0, top, wide, axes.y(0.0) - top, title);
    points += fmt::format(
        R"(<line class="level" x1="{0:.1f}" x2="{1:.1f}" y1="{2:.1f}" y2="{2:.1f}"><title>{3}</title></line>)", left,
        left + wide + 2.0, axes.y(bin.mean_confidence()), title);
    const double tall =
        std::max(1.0, static_cast<double>(bin.count) / static_cast<double>(largest) * (lower.bottom - lower.top));
    counts +=
        fmt::format(R"(<rect class="c" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>)",
                    left + 1.0, lower.bottom - tall, wide, tall, title);
  }
  // The lower plot has the numbers of the x axis.
  const Axes below(lower, {0.0, 1.0, 0.2}, {0.0, 1.0, 2.0});
  std::string svg;
  for (int i = 0; i <= 5; ++i) {
    const double y = axes.y(0.2 * i);
    svg += fmt::format(
        R"(<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/><text class="r" x="{:.1f}" y="{:.1f}">{:.1f}</text>)",
        upper.left, upper.right, y, y, upper.left - 6, y + 4, 0.2 * i);
  }
  for (int i = 0; i <= 5; ++i) {
    svg += fmt::format(R"(<text class="m" x="{:.1f}" y="{:.1f}">{:.1f}</text>)", below.x(0.2 * i), lower.bottom + 17,
                       0.2 * i);
  }
  svg += fmt::format(R"(<line class="axis" x1="{0:.1f}" x2="{1:.1f}" y1="{2:.1f}" y2="{2:.1f}"/>)", lower.left,
                     lower.right, lower.bottom);
  svg += fmt::format(R"(<line class="axis" x1="{0:.1f}" x2="{1:.1f}" y1="{2:.1f}" y2="{2:.1f}"/>)", upper.left,
                     upper.right, upper.bottom);
  svg += fmt::format(R"(<text class="r" x="{:.1f}" y="{:.1f}">{}</text>)", lower.left - 6, lower.top + 10,
                     number_text(static_cast<double>(largest)));
  svg += fmt::format(R"(<text class="m" x="{:.1f}" y="{:.1f}">confidence</text>)", (lower.left + lower.right) / 2,
                     lower.bottom + 34);
  svg += bars;
  svg += fmt::format(R"(<line class="mark" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)", axes.x(0), axes.y(0),
                     axes.x(1), axes.y(1));
  svg += points + counts;
  const std::string keys =
      R"( <span class="key a">accuracy</span> <span class="key b">mean confidence</span> <span class="key c">records</span>)";
  return figure("Accuracy by confidence", keys, width, height, svg);
}

}  // namespace carillon
