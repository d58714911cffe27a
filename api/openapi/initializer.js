"use strict";

const choice = document.getElementById("api");

function show() {
  SwaggerUIBundle({ url: choice.value, dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null });
}

choice.addEventListener("change", show);
show();
