// mpirun -np 2 shapes_train --data 'data/shapes/train-*' --train-dir runs/shapes
#include <carillon/cli/program_spec.h>

#include "shapes.h"

int main(int argc, char** argv) { return carillon::training_main("shapes_train", shapes_program(), argc, argv); }
