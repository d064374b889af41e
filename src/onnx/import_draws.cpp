// Imports drop paths. Exporters write a drop path as three steps: a random number for each sample; a mask, which is
// floor(kept + uniform) or (uniform < kept); and a product of the mask and x. The product may be divided by `kept`, the
// probability that the mask is 1.
#include <algorithm>

#include "kernels/dropout/dropout.h"
#include "kernels/elementwise/elementwise.h"
#include "src/onnx/importer.h"

namespace carillon {

bool Importer::add_draw(const OnnxNode& node) {
  const std::string& y = node.output();
  if (node.type() == "RandomUniformLike" || node.type() == "RandomUniform") {
    const OnnxConstant like = node.type() == "RandomUniformLike" ? constant(node, 0) : nullptr;
    const Extents shape = like ? like->shape : node.integers("shape");
    if (shape.empty() || std::count(shape.begin() + 1, shape.end(), 1) + 1 != std::ssize(shape)) {
      refuse(node, "draws several numbers for each sample, which is not supported");
    }
    draws_[y] = {};
    return true;
  }
  const auto first = draws_.find(node.input(0)), second = draws_.find(node.input(1));
  if (first == draws_.end() && second == draws_.end()) return false;
  const bool is_first = first != draws_.end();
  const Draw draw = is_first ? first->second : second->second;
  const OnnxConstant other = constant(node, is_first ? 1 : 0);
  const std::optional<float> number =
      other && other->has_floats && other->floats.size() == 1 ? std::optional(other->floats[0]) : std::nullopt;
  if (node.type() == "Cast") {
    draws_[y] = draw;
  } else if (node.type() == "Floor" && draw.kept && !draw.is_divided) {
    draws_[y] = {.kept = draw.kept, .is_mask = true};
  } else if (node.type() == "Less" && number && !draw.kept) {
    draws_[y] = {.kept = is_first ? *number : 1.0f - *number, .is_mask = true};
  } else if (node.type() == "Add" && number && !draw.kept) {
    draws_[y] = {.kept = number};
  } else if (node.type() == "Div" && is_first && number && draw.kept == number) {
    draws_[y] = {.kept = number, .is_mask = draw.is_mask, .is_divided = true};
  } else if (node.type() == "Mul" && draw.is_mask && is_placed(node, is_first ? 1 : 0) && *draw.kept > 0.0f &&
             *draw.kept <= 1.0f) {
    const Placed x = input(node, is_first ? 1 : 0);
    Value value = drop_path(graph_, op_name(node), x.value, {.rate = 1.0f - *draw.kept});
    if (!draw.is_divided) value = scale(graph_, op_name(node, "/scale"), value, *draw.kept);
    placed_[y] = with_value(x, value);
  } else {
    refuse(node, "uses random numbers in a way that is not supported");
  }
  return true;
}

}  // namespace carillon
