#include "src/report/html_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace carillon {
namespace {

/// The area of a plot within its figure, in SVG units.
struct Area {
  double left = 0.0, top = 0.0, right = 0.0, bottom = 0.0;
};

struct Range {
  double low = 0.0, high = 1.0;
  double step = 0.2;  ///< distance between two ticks
};

/// Returns the distance between ticks: 1, 2 or 5 times a power of ten, and about `range` / `count`.
double tick_step(double range, int count) {
  const double power = std::pow(10.0, std::floor(std::log10(range / count)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (range / (factor * power) <= count) return factor * power;
  }
  return 10.0 * power;
}

/// Returns a range that contains the values. The range begins and ends at ticks.
Range range_around(double low, double high) {
  if (!(high > low)) {
    const double margin = low == 0.0 ? 1.0 : std::abs(low) * 0.1;
    const bool is_share = low >= 0.0 && high <= 1.0;  // for example, if the values are accuracies
    low -= margin;
    high = is_share ? std::min(high + margin, 1.0) : high + margin;
  }
  constexpr int ticks = 5;
  const double step = tick_step(high - low, ticks);
  return {std::floor(low / step + 1e-9) * step, std::ceil(high / step - 1e-9) * step, step};
}

/// Returns the text of a tick. Two ticks that are `step` apart never have the same text.
std::string tick_text(double value, double step) {
  constexpr double small = 1e-4, thousand = 1e3, million = 1e6;
  if (std::abs(value) < step * 1e-6) return "0";
  const double size = std::abs(value);
  if (step < small)
    return fmt::format("{:.{}e}", value, std::max(0, static_cast<int>(std::ceil(std::log10(size / step)))));
  const auto [unit, sign] = size >= million         ? std::pair(million, "M")
                            : size >= 10 * thousand ? std::pair(thousand, "k")
                                                    : std::pair(1.0, "");
  const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(step / unit) - 1e-9)));
  return fmt::format("{:.{}f}{}", value / unit, decimals, sign);
}

/// Maps values to positions in a figure.
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

  /// Draws grid lines, with the numbers of the y axis.
  std::string y_grid() const {
    std::string svg;
    for (int i = 0; y_.low + i * y_.step <= y_.high + y_.step * 1e-6; ++i) {
      const double value = y_.low + i * y_.step;
      svg += fmt::format(
          R"(<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/><text class="r" x="{:.1f}" y="{:.1f}">{}</text>)",
          area_.left, area_.right, y(value), y(value), area_.left - 6, y(value) + 4, tick_text(value, y_.step));
    }
    return svg;
  }

  /// Draws the ticks, the numbers and the title of the x axis.
  std::string x_ticks(const std::string& title) const {
    std::string svg;
    for (int i = 0; x_.low + i * x_.step <= x_.high + x_.step * 1e-6; ++i) {
      const double value = x_.low + i * x_.step;
      svg += fmt::format(
          R"(<line class="tick" x1="{0:.1f}" x2="{0:.1f}" y1="{1:.1f}" y2="{2:.1f}"/><text class="m" x="{0:.1f}" y="{3:.1f}">{4}</text>)",
          x(value), area_.bottom, area_.bottom + 4, area_.bottom + 17, tick_text(value, x_.step));
    }
    return svg + fmt::format(R"(<text class="m" x="{:.1f}" y="{:.1f}">{}</text>)", (area_.left + area_.right) / 2,
                             area_.bottom + 34, title);
  }

  std::string x_axis() const {
    return fmt::format(R"(<line class="axis" x1="{0:.1f}" x2="{1:.1f}" y1="{2:.1f}" y2="{2:.1f}"/>)", area_.left,
                       area_.right, area_.bottom);
  }

  std::string grid(const std::string& x_title) const { return y_grid() + x_ticks(x_title) + x_axis(); }

  /// Draws a dashed line from the low end to the high end of both axes.
  std::string diagonal() const {
    return fmt::format(R"(<line class="mark" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)", x(x_.low), y(y_.low),
                       x(x_.high), y(y_.high));
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
    if (!line.is_second && line.points.size() > 1) continue;
    marks +=
        fmt::format(R"(<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="3"><title>step {:.0f}: {:.6g}</title></circle>)",
                    kind, axes.x(point.step), axes.y(point.value), point.step, point.value);
  }
  return fmt::format(R"(<polyline class="{}" points="{}"/>)", kind, places) + marks;
}

/// Selects every k-th number. k is the smallest number for which at most `count` numbers are selected.
std::vector<PredictedNumber> spaced(std::span<const PredictedNumber> numbers, std::size_t count) {
  const std::size_t distance = (numbers.size() + count - 1) / count;
  std::vector<PredictedNumber> kept;
  for (std::size_t i = 0; i < numbers.size(); i += distance) kept.push_back(numbers[i]);
  return kept;
}

}  // namespace

std::string line_chart(const LineChart& chart) {
  constexpr double width = 440, height = 260;
  std::vector<CurvePoint> all;
  for (const ChartLine& line : chart.lines) all.insert(all.end(), line.points.begin(), line.points.end());
  if (all.empty()) return {};
  const auto last = std::ranges::max_element(all, {}, &CurvePoint::step);
  const auto [lowest, highest] = std::ranges::minmax_element(all, {}, &CurvePoint::value);
  const Range steps = range_around(0.0, std::max({1.0, last->step, chart.marked_step.value_or(0.0), chart.last_step}));
  const double low = chart.starts_at_zero ? std::min(lowest->value, 0.0) : lowest->value;
  const Axes axes({52, 10, width - 16, height - 42}, steps, range_around(low, highest->value));
  std::string svg = axes.grid("step"), keys;
  if (chart.marked_step) {
    svg += fmt::format(R"(<line class="mark" x1="{0:.1f}" x2="{0:.1f}" y1="{1:.1f}" y2="{2:.1f}"/>)",
                       axes.x(*chart.marked_step), axes.area().top, axes.area().bottom);
  }
  for (const ChartLine& line : chart.lines) {
    if (line.points.empty()) continue;
    svg += drawn(line, axes);
    keys += fmt::format(R"( <span class="key {}">{}</span>)", line.is_second ? "b" : "a", line.name);
  }
  return figure(chart.title, keys, width, height, svg);
}

std::string scatter_chart(const std::string& name, std::span<const PredictedNumber> numbers) {
  constexpr double width = 400, height = 380;
  constexpr std::size_t max_points = 1500;
  if (numbers.empty()) return {};
  const std::vector<PredictedNumber> shown = spaced(numbers, max_points);
  double low = shown.front().truth, high = low;
  for (const PredictedNumber& number : shown) {
    low = std::min({low, number.truth, number.predicted});
    high = std::max({high, number.truth, number.predicted});
  }
  const Range range = range_around(low, high);
  const Axes axes({58, 10, width - 16, height - 42}, range, range);
  std::string svg = axes.grid("true");
  for (const PredictedNumber& number : shown) {
    svg += fmt::format(R"(<circle class="p" cx="{:.1f}" cy="{:.1f}" r="2.5"/>)", axes.x(number.truth),
                       axes.y(number.predicted));
  }
  svg += axes.diagonal();
  const std::string of_many =
      shown.size() < numbers.size() ? fmt::format(" ({} of {} records)", shown.size(), numbers.size()) : "";
  return figure(name, R"( <span class="key p">predicted</span>)" + of_many, width, height, svg);
}

std::string calibration_chart(const Calibration& calibration) {
  constexpr double width = 440, height = 390, middle = 268;
  const Range shares{0.0, 1.0, 0.2};
  std::int64_t largest = 1;
  for (const Calibration::Bin& bin : calibration.bins()) largest = std::max(largest, bin.count);
  const Axes above({52, 10, width - 16, middle}, shares, shares);
  const Axes below({52, middle + 14, width - 16, height - 42}, shares, {0.0, static_cast<double>(largest), 1.0});
  std::string accuracies, confidences, counts;
  for (std::size_t i = 0; i < Calibration::bin_count; ++i) {
    const Calibration::Bin& bin = calibration.bins()[i];
    if (bin.count == 0) continue;
    constexpr auto bins = static_cast<double>(Calibration::bin_count);
    const double left = above.x(static_cast<double>(i) / bins), right = above.x(static_cast<double>(i + 1) / bins);
    const std::string title =
        fmt::format("confidence {:.3f}, accuracy {:.3f}, {} records", bin.mean_confidence(), bin.accuracy(), bin.count);
    const auto bar = [&](const char* kind, double top, double bottom) {
      return fmt::format(
          R"(<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>)", kind,
          left + 1.0, top, right - left - 2.0, bottom - top, title);
    };
    accuracies += bar("a", above.y(bin.accuracy()), above.y(0.0));
    confidences += fmt::format(
        R"(<line class="level" x1="{0:.1f}" x2="{1:.1f}" y1="{2:.1f}" y2="{2:.1f}"><title>{3}</title></line>)", left,
        right, above.y(bin.mean_confidence()), title);
    const double bottom = below.y(0.0);
    counts += bar("c", std::min(below.y(static_cast<double>(bin.count)), bottom - 1.0), bottom);
  }
  const std::string most = fmt::format(R"(<text class="r" x="{:.1f}" y="{:.1f}">{}</text>)", below.area().left - 6,
                                       below.area().top + 10, tick_text(static_cast<double>(largest), 1.0));
  const std::string svg = above.y_grid() + above.x_axis() + below.x_ticks("confidence") + below.x_axis() + most +
                          accuracies + above.diagonal() + confidences + counts;
  const std::string keys =
      R"( <span class="key a">accuracy</span> <span class="key b">mean confidence</span> <span class="key c">records</span>)";
  return figure("Accuracy by confidence", keys, width, height, svg);
}

}  // namespace carillon
