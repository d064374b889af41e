// shapes_eval --data 'data/shapes/test-*' --checkpoint runs/shapes
#include <carillon/cli/program_spec.h>

#include "shapes.h"

int main(int argc, char** argv) { return carillon::evaluation_main("shapes_eval", shapes_program(), argc, argv); }
